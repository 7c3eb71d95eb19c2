#include "limiter/give_back.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "limiter/timekeeper.h"
#include "limiter/waiting_lines.h"

namespace sluice {
namespace {

constexpr std::chrono::seconds kMostAtExit{1};

/// What is still on its way when the process ends.
class UnderWay {
 public:
  /// Never destroyed: what is on its way may arrive later than the last static object goes.
  static UnderWay& here() {
    static UnderWay& made = *[] {
      auto* fresh = new UnderWay;
      std::atexit([] { here().wait(); });
      return fresh;
    }();
    return made;
  }

  void begin() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) none_.notify_all();
  }

 private:
  void wait() {
    if (generation_ != fork_generation()) return;  // It was on its way in another process.
    std::unique_lock lock(mutex_);
    none_.wait_for(lock, kMostAtExit, [&] { return count_ == 0; });
  }

  const std::uint64_t generation_ = fork_generation();
  std::mutex mutex_;
  std::condition_variable none_;
  std::size_t count_ = 0;  // guarded by mutex_
};

void wake(const BoundLimit& bound, const Request& request) {
  bound.space->companion<WaitingLines>().released(request.key);
}

/// One on its way. Owns itself. The slot, and the store with it, goes on the timekeeper's thread:
/// a store cannot end on its own.
class Returning final : public Inquiry {
 public:
  Returning(const std::shared_ptr<const LimitSlot>& slot, const BoundLimit& bound,
            const Request& request)
      : slot_(slot), bound_(bound), key_(request.key), request_(request) {
    request_.key = key_;
    requests = {&request_, 1};
    decisions = {&decision_, 1};
    UnderWay::here().begin();
  }
  ~Returning() override { UnderWay::here().end(); }

  void submit() {
    bool is_answered = true;
    try {
      is_answered = slot_->store()->submit(*this);
    } catch (const std::exception&) {
      // Not answered: see give_back().
    }
    if (is_answered) end();
  }

 private:
  // Those who wait are woken once it is known to have arrived: they would ask in vain before.
  void end() {
    const std::unique_ptr<Returning> self(this);
    wake(bound_, request_);
  }

  void answered() noexcept override {
    const auto keeper = keeper_;
    keeper->post([this] { end(); });
  }

  const std::shared_ptr<Timekeeper> keeper_ = Timekeeper::shared();
  const std::shared_ptr<const LimitSlot> slot_;
  const BoundLimit& bound_;
  const std::string key_;
  Request request_;
  Decision decision_;
};

}  // namespace

void give_back(const std::shared_ptr<const LimitSlot>& slot, const BoundLimit& bound,
               const Request& request) noexcept {
  try {
    if (slot->store()->answers_later()) {
      (new Returning(slot, bound, request))->submit();
    } else {
      give_back_now(*slot, bound, request);
    }
  } catch (const std::exception&) {
    // Not answered, or the system gives no memory or thread: as if it had been lost on its way.
  }
}

void give_back_now(const LimitSlot& slot, const BoundLimit& bound,
                   const Request& request) noexcept {
  try {
    slot.ask(request);
  } catch (const std::exception&) {
    // As above.
  }
  wake(bound, request);
}

}  // namespace sluice
