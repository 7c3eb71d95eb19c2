#include "net/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace sluice {
namespace {

constexpr std::size_t kEventsPerRound = 256;

UniqueFd own(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return UniqueFd(fd);
}

}  // namespace

EventLoop::EventLoop()
    : epoll_(own(::epoll_create1(EPOLL_CLOEXEC), "cannot make an event loop")),
      wake_(own(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "cannot make an event loop")) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // No sink: the loop itself.
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot make an event loop");
  }
}

EventLoop::~EventLoop() = default;

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

bool EventLoop::later(const Timer& a, const Timer& b) {
  return a.when != b.when ? a.when > b.when : a.order > b.order;
}

void EventLoop::run_after(Clock::duration wait, std::function<void()> task) {
  timers_.push_back({Clock::now() + wait, timers_made_++, std::move(task)});
  std::push_heap(timers_.begin(), timers_.end(), later);
}

void EventLoop::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(task));
  }
  // A full counter (EAGAIN) wakes the loop as well as one more would.
  [[maybe_unused]] const int result = ::eventfd_write(wake_.get(), 1);
}

void EventLoop::stop() {
  post([this] { stopping_.store(true, std::memory_order_relaxed); });
}

int EventLoop::wait_ms() const {
  if (timers_.empty()) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(timers_.front().when - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

void EventLoop::run_due() {
  const Clock::time_point now = Clock::now();
  while (!timers_.empty() && timers_.front().when <= now) {
    std::pop_heap(timers_.begin(), timers_.end(), later);
    const std::function<void()> task = std::move(timers_.back().task);
    timers_.pop_back();
    task();
  }
}

void EventLoop::run_posted() {
  eventfd_t count = 0;
  ::eventfd_read(wake_.get(), &count);
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
  }
  for (const std::function<void()>& task : tasks) task();
}

void EventLoop::run() {
  std::array<epoll_event, kEventsPerRound> events;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const int ready =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms());
    bool woken = false;
    for (int i = 0; i < ready; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.ptr == nullptr) {
        woken = true;
      } else {
        static_cast<EventSink*>(event.data.ptr)->on_events(event.events);
      }
    }
    if (woken) run_posted();
    if (!timers_.empty()) run_due();
  }
}

}  // namespace sluice
