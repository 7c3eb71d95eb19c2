#include "stores/remote/courier.h"

#include <algorithm>
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

void make_errands(Trip& trip, Inquiry& inquiry) {
  const std::size_t count = errands_of(inquiry);
  trip.inquiry = &inquiry;
  trip.open = count;
  trip.errands.clear();
  trip.errands.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    Errand& errand = trip.errands[i];
    errand.requests = inquiry.together ? inquiry.requests : inquiry.requests.subspan(i, 1);
    errand.decision = &inquiry.decisions[i];
    errand.now = inquiry.now;
    errand.together = inquiry.together;
  }
}

}  // namespace

class Courier::Service final : public Task {
 public:
  explicit Service(Courier& courier) : courier_(courier) {}
  void run() override { courier_.serve(); }

 private:
  Courier& courier_;
};

Courier::Courier(Carrier& carrier, const Options& options)
    : carrier_(carrier), options_(options), service_(std::make_shared<Service>(*this)) {}

Courier::~Courier() {
  stop();
  tell();
  under_way_.splice(under_way_.end(), arrived_here_);
  under_way_.splice(under_way_.end(), arrived_);
  while (!under_way_.empty()) {
    Trip& trip = under_way_.front();
    trip.inquiry->fault = "the store was closed before it answered";
    for (Errand& errand : trip.errands) {
      if (errand.trip_ != nullptr) *errand.decision = {.source = Source::kUnanswered};
    }
    Inquiry* inquiry = trip.inquiry;
    under_way_.pop_front();
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

// What is refused never counts, so that nobody else is refused for it.
bool Courier::make_room(std::size_t count) {
  std::size_t before = errands_.load(std::memory_order_relaxed);
  do {
    if (count > options_.max_errands || before > options_.max_errands - count) return false;
  } while (!errands_.compare_exchange_weak(before, before + count, std::memory_order_relaxed));
  return true;
}

bool Courier::submit(Inquiry& inquiry, Clock::time_point deadline) {
  const std::size_t count = errands_of(inquiry);
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
    errands_.fetch_sub(count, std::memory_order_relaxed);
    throw;
  }
  if (call) loop_.post(service_);
  return true;
}

void Courier::depart(Inquiry& inquiry, Clock::time_point deadline, Platform at) {
  if (at.idle.empty()) at.idle.emplace_back();
  Trip& trip = at.idle.back();
  make_errands(trip, inquiry);
  trip.deadline = deadline;
  trip.self = std::prev(at.idle.end());
  for (Errand& errand : trip.errands) errand.trip_ = &trip;
  at.arrived.splice(at.arrived.end(), at.idle, trip.self);
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
      Trip& trip = ended_.front();
      inquiries[count++] = trip.inquiry;
      prefetch(trip.inquiry, kInquiryBytes);
      if (idle_here_.size() < kMaxIdleTrips && trip.errands.capacity() <= kMaxIdleErrands) {
        idle_here_.splice(idle_here_.end(), ended_, trip.self);
      } else {
        ended_.erase(trip.self);
      }
    } while (listener != nullptr && count < inquiries.size() && !ended_.empty() &&
             ended_.front().inquiry->listener == listener);
    // Before anybody is told, who may ask again at once.
    if (left_ > 0) errands_.fetch_sub(std::exchange(left_, 0), std::memory_order_relaxed);
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
  Trips arrived;
  arrived.swap(arrived_here_);
  {
    const std::lock_guard lock(mutex_);
    // Others take back what has come to its end; the courier's own thread has enough.
    if (!arrived_.empty() && idle_.size() < kMaxIdleTrips) idle_.splice(idle_.end(), idle_here_);
    arrived.splice(arrived.end(), arrived_);
    called_ = false;
  }
  if (arrived.empty()) return;
  round_began_ = Clock::now();
  // An errand may be settled while it is carried, and its trip end with the last one.
  while (!arrived.empty()) {
    Trip& trip = arrived.front();
    auto at = under_way_.end();
    while (at != under_way_.begin() && std::prev(at)->deadline > trip.deadline) --at;
    under_way_.splice(at, arrived, trip.self);
    trip.open += 1;
    for (Errand& errand : trip.errands) carrier_.carry(errand);
    if (--trip.open == 0) end(trip);
  }
  carrier_.dispatch();
  watch();
}

void Courier::watch() {
  if (under_way_.empty() || under_way_.front().deadline >= watched_) return;
  watched_ = under_way_.front().deadline;
  loop_.run_after(std::max(Clock::duration::zero(), watched_ - Clock::now()),
                  [this, timer = watched_] {
                    if (timer != watched_) return;  // An earlier one has been set since.
                    watched_ = Clock::time_point::max();
                    expire();
                    watch();
                  });
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
  left_ += trip.errands.size();
  const bool call = ended_.empty();
  ended_.splice(ended_.end(), under_way_, trip.self);
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
