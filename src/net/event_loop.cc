#include "net/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kEventsPerRound = 256;

class FunctionTask final : public Task {
 public:
  explicit FunctionTask(std::function<void()> function) : function_(std::move(function)) {}
  void run() override { function_(); }

 private:
  std::function<void()> function_;
};

UniqueFd own(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return UniqueFd(fd);
}

}  // namespace

thread_local const EventLoop* EventLoop::running_here_ = nullptr;

EventLoop::EventLoop()
    : epoll_(own(::epoll_create1(EPOLL_CLOEXEC), "cannot make an event loop")),
      wake_(own(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "cannot make an event loop")),
      stop_(std::make_shared<FunctionTask>([this] { stopping_ = true; })) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // No sink: the loop itself.
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot make an event loop");
  }
}

EventLoop::~EventLoop() {
  while (!timers_.empty()) (*timers_.begin())->cancel();
  // One by one, since each owns the next.
  while (first_posted_ != nullptr) first_posted_ = std::move(first_posted_->next_);
}

bool EventLoop::add(int fd, std::uint32_t events, EventSink& sink) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &sink;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void EventLoop::modify(int fd, std::uint32_t events, EventSink& sink) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &sink;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void EventLoop::remove(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

bool EventLoop::Sooner::operator()(const Timer* a, const Timer* b) const {
  return a->when_ < b->when_;
}

void EventLoop::post(std::shared_ptr<Task> task) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (task->posted_.exchange(true)) return;
    Task* const before = std::exchange(last_posted_, task.get());
    if (before != nullptr) {
      before->next_ = std::move(task);
      return;  // Whoever posted the first has woken the loop, or is about to.
    }
    first_posted_ = std::move(task);
  }
  if (is_here()) {
    posted_here_ = true;
    return;
  }
  // A full counter (EAGAIN) wakes the loop as well as one more would.
  [[maybe_unused]] const int result = ::eventfd_write(wake_.get(), 1);
}

void EventLoop::post(std::function<void()> task) {
  post(std::make_shared<FunctionTask>(std::move(task)));
}

int EventLoop::wait_ms() const {
  if (posted_here_) return 0;
  if (timers_.empty()) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>((*timers_.begin())->when_ - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

void EventLoop::run_due() {
  const Clock::time_point now = Clock::now();
  while (!timers_.empty() && (*timers_.begin())->when_ <= now) {
    Timer& timer = **timers_.begin();
    const auto task = timer.task_;
    timer.cancel();
    (*task)();
  }
}

std::shared_ptr<Task> EventLoop::take_posted() {
  const std::lock_guard lock(mutex_);
  last_posted_ = nullptr;
  return std::exchange(first_posted_, nullptr);
}

void EventLoop::run_posted() {
  posted_here_ = false;
  std::shared_ptr<Task> task = take_posted();
  while (task != nullptr) {
    std::shared_ptr<Task> next = std::move(task->next_);
    task->posted_.store(false);
    task->run();
    task = std::move(next);
  }
}

void EventLoop::run() {
  running_here_ = this;
  std::array<epoll_event, kEventsPerRound> events;
  while (!stopping_) {
    const int ready =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms());
    bool woken = false;
    for (int i = 0; i < ready; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.ptr == nullptr) {
        woken = true;
        eventfd_t count = 0;
        ::eventfd_read(wake_.get(), &count);
      } else {
        static_cast<EventSink*>(event.data.ptr)->on_events(event.events);
      }
    }
    if (woken || posted_here_) run_posted();
    if (!timers_.empty()) run_due();
  }
  running_here_ = nullptr;
}

Timer::Timer(EventLoop& loop, std::function<void()> task)
    : loop_(loop), task_(std::make_shared<const std::function<void()>>(std::move(task))) {
  EventLoop::Timers alone{this};
  place_ = alone.extract(alone.begin());
}

void Timer::set_at(Clock::time_point when) noexcept {
  cancel();
  when_ = when;
  at_ = loop_.timers_.insert(std::move(place_));
}

void Timer::cancel() noexcept {
  if (is_set()) place_ = loop_.timers_.extract(at_);
}

}  // namespace sluice
