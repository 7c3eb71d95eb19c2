#include "stores/remote/courier.h"

#include <array>
#include <utility>

#include "core/prefetch.h"

namespace sluice {
namespace {

// How many trips are kept to be used again, and with room for how many errands each.
constexpr std::size_t kMaxIdleTrips = 1'024;
constexpr std::size_t kMaxIdleErrands = 128;

// An inquiry and what its kind has beside: who is told of several goes through them at once.
constexpr std::size_t kInquiryBytes = 256;

std::size_t errands_of(const Inquiry& inquiry) {
  return inquiry.together ? 1 : inquiry.requests.size();
}

}  // namespace

void Trip::begin(Inquiry& of, std::chrono::steady_clock::time_point answered_by) {
  if (errands_of(of) == 1) {
    only_ = Errand(of, of.requests, of.decisions[0], *this);
    errands = {&only_, 1};
  } else {
    several_.clear();
    for (std::size_t i = 0; i < of.requests.size(); ++i) {
      several_.emplace_back(of, of.requests.subspan(i, 1), of.decisions[i], *this);
    }
    errands = several_;
  }
  inquiry = &of;
  deadline = answered_by;
  open = errands.size();
}

class Courier::Service final : public Task {
 public:
  explicit Service(Courier& courier) : courier_(courier) {}
  void run() override { courier_.serve(); }

 private:
  Courier& courier_;
};

Courier::Courier(Carrier& carrier, const Options& options)
    : carrier_(carrier),
      options_(options),
      timer_(loop_,
             [this] {
               expire();
               watch();
             }),
      service_(std::make_shared<Service>(*this)) {}

Courier::~Courier() {
  stop();
  tell();
  under_way_.append(arrived_here_);
  under_way_.append(arrived_);
  while (!under_way_.empty()) {
    Trip& trip = under_way_.front();
    trip.inquiry->fault = "the store was closed before it answered";
    for (Errand& errand : trip.errands) {
      if (errand.trip_ != nullptr) *errand.decision = {.source = Source::kUnanswered};
    }
    Inquiry* inquiry = trip.inquiry;
    delete &under_way_.pop_front();
    inquiry->answered();
  }
}

void Courier::start(std::function<void()> first) {
  thread_ = std::thread([this, first = std::move(first)] {
    first();
    loop_.run();
  });
}

void Courier::stop() {
  if (!thread_.joinable()) return;
  loop_.stop();
  thread_.join();
}

// What is refused never counts, so that nobody else is refused for it. What the courier's thread
// and another take at the same moment may exceed the bound by the one of them.
bool Courier::make_room(std::int64_t count) {
  const auto is_room = [&](std::int64_t elsewhere, std::int64_t here) {
    return elsewhere + here <= options_.max_errands - count;
  };
  std::int64_t elsewhere = asked_elsewhere_.load(std::memory_order_acquire);
  if (loop_.is_here()) {
    const std::int64_t here = asked_here_.load(std::memory_order_relaxed);
    if (!is_room(elsewhere, here)) return false;
    asked_here_.store(here + count, std::memory_order_relaxed);
    return true;
  }
  // Here is read last, and again each time: what it has been told of was asked for before.
  do {
    if (!is_room(elsewhere, asked_here_.load(std::memory_order_relaxed))) return false;
  } while (!asked_elsewhere_.compare_exchange_weak(
      elsewhere, elsewhere + count, std::memory_order_relaxed, std::memory_order_acquire));
  return true;
}

void Courier::give_room_back(std::int64_t count) {
  if (loop_.is_here()) {
    asked_here_.store(asked_here_.load(std::memory_order_relaxed) - count,
                      std::memory_order_relaxed);
  } else {
    asked_elsewhere_.fetch_sub(count, std::memory_order_relaxed);
  }
}

bool Courier::submit(Inquiry& inquiry, Clock::time_point deadline) {
  const auto count = static_cast<std::int64_t>(errands_of(inquiry));
  if (count == 0) return false;
  if (!make_room(count)) {
    leave_unanswered(inquiry, "too many requests wait for the store");
    return false;
  }
  bool call = false;
  try {
    if (loop_.is_here()) {
      call = arrived_here_.empty() && !telling_;
      depart(inquiry, deadline, {.idle = idle_here_, .arrived = arrived_here_});
    } else {
      const std::lock_guard lock(mutex_);
      depart(inquiry, deadline, {.idle = idle_, .arrived = arrived_});
      call = !std::exchange(called_, true);
    }
  } catch (...) {
    give_room_back(count);
    throw;
  }
  if (call) loop_.post(service_);
  return true;
}

void Courier::depart(Inquiry& inquiry, Clock::time_point deadline, Platform at) {
  if (at.idle.empty()) at.idle.push_back(*new Trip);
  at.idle.back().begin(inquiry, deadline);
  at.arrived.push_back(at.idle.pop_back());
}

// Who is told may ask again: what arrives so is collected next.
void Courier::serve() {
  telling_ = true;
  tell();
  telling_ = false;
  collect();
}

// Those who are told may do anything, but end the store. Each trip is free to be used again by
// then.
void Courier::tell() {
  std::size_t told = InquiryListener::kMost;  // Since the clock was looked at.
  while (!ended_.empty()) {
    InquiryListener* const listener = ended_.front().inquiry->listener;
    std::array<Inquiry*, InquiryListener::kMost> inquiries;
    std::size_t count = 0;
    do {
      Trip& trip = ended_.pop_front();
      inquiries[count++] = trip.inquiry;
      prefetch(trip.inquiry, kInquiryBytes);
      if (idle_here_.size() < kMaxIdleTrips && trip.room() <= kMaxIdleErrands) {
        idle_here_.push_back(trip);
      } else {
        delete &trip;
      }
    } while (listener != nullptr && count < inquiries.size() && !ended_.empty() &&
             ended_.front().inquiry->listener == listener);
    // Before anybody is told, who may ask again at once.
    if (left_ > 0) give_room_back(std::exchange(left_, 0));
    if ((told += count) > InquiryListener::kMost) {
      told_at_ = Clock::now();
      told = count;
    }
    if (listener != nullptr) {
      listener->answered({inquiries.data(), count});
    } else {
      inquiries[0]->answered();
    }
  }
}

void Courier::collect() {
  TripList arrived;
  arrived.append(arrived_here_);
  {
    const std::lock_guard lock(mutex_);
    // Others take back what has come to its end; the courier's own thread has enough.
    if (!arrived_.empty() && idle_.size() < kMaxIdleTrips) idle_.append(idle_here_);
    arrived.append(arrived_);
    called_ = false;
  }
  if (arrived.empty()) return;
  round_began_ = Clock::now();
  // An errand may be settled while it is carried, and its trip end with the last one.
  while (!arrived.empty()) {
    Trip& trip = arrived.pop_front();
    Trip* before = under_way_.empty() ? nullptr : &under_way_.back();
    while (before != nullptr && before->deadline > trip.deadline)
      before = TripList::before(*before);
    under_way_.put_behind(trip, before);
    trip.open += 1;
    for (Errand& errand : trip.errands) carrier_.carry(errand);
    if (--trip.open == 0) end(trip);
  }
  carrier_.dispatch();
  watch();
}

void Courier::watch() {
  if (under_way_.empty()) return;
  const Clock::time_point first = under_way_.front().deadline;
  if (first < timer_.due()) timer_.set_at(first);
}

void Courier::expire() {
  const Clock::time_point now = Clock::now();
  while (!under_way_.empty() && under_way_.front().deadline <= now) {
    Trip& trip = under_way_.front();
    trip.open += 1;
    for (Errand& errand : trip.errands) {
      if (errand.trip_ != nullptr) fail(errand, carrier_.abandon(errand));
    }
    trip.open -= 1;
    end(trip);
  }
}

void Courier::done(Errand& errand) noexcept {
  Trip& trip = *std::exchange(errand.trip_, nullptr);
  if (--trip.open == 0) end(trip);
}

void Courier::fail(Errand& errand, std::string_view why) noexcept {
  *errand.decision = {.source = Source::kUnanswered};
  Inquiry& inquiry = *errand.trip_->inquiry;
  if (inquiry.fault.empty()) keep_reason(inquiry.fault, why);
  done(errand);
}

void Courier::end(Trip& trip) noexcept {
  left_ += static_cast<std::int64_t>(trip.errands.size());
  const bool call = ended_.empty();
  ended_.push_back(under_way_.take_out(trip));
  if (call) loop_.post(service_);
}

void leave_unanswered(Inquiry& inquiry, std::string_view why) {
  for (Decision& decision : inquiry.decisions) decision = {.source = Source::kUnanswered};
  inquiry.fault = why;
}

void ask_and_wait(Courier& courier, AwaitedInquiry& inquiry, Courier::Clock::time_point deadline) {
  if (courier.submit(inquiry, deadline)) inquiry.wait();
  if (!inquiry.fault.empty()) throw StoreError(inquiry.fault);
}

}  // namespace sluice
