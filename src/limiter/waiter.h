#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "core/store.h"
#include "limiter/limit_slot.h"
#include "limiter/timekeeper.h"

namespace sluice {

class WaitingLine;

/// What somebody wants to take.
struct Wish {
  std::shared_ptr<const LimitSlot> slot;
  std::string key;
  std::int64_t cost = 1;
  /// Of a limit of permits: the name under which it takes one. The next time another, where the
  /// store may have given it and did not say so.
  PermitId permit = 0;
  /// How long it may take.
  Timekeeper::TimePoint until = Timekeeper::kEndOfTime;
};

/// How a wish ended.
struct Outcome {
  Decision decision = {};
  /// Where it is not null, the decision means nothing.
  std::exception_ptr error = nullptr;
  /// Of a limit of permits: the name under which the store was asked last.
  PermitId permit = 0;
  /// When the store was asked last, and by which limit, which lives as long as the slot.
  Timekeeper::TimePoint asked = {};
  const BoundLimit* bound = nullptr;

  /// The store did not answer, and may have done it all the same, or do it yet.
  bool is_unanswered() const {
    return error || decision.source == Source::kLocal || decision.source == Source::kPolicy;
  }
};

/// Asks the store for what is wished, on the calling thread. An asking that failed is an outcome
/// with an error; a permit that the store may have given all the same is given back to it, and the
/// wish has another name for the next time.
Outcome ask_now(Wish& wish, Timekeeper::TimePoint now);

/// Somebody who wishes, and can wait for it. Told of the outcome once, by `finish`, on the
/// timekeeper's thread; all but answered() is called there, too. Owned by those who have it to do
/// with at the moment: a line, an entry in the agenda, the store that is asked.
class Waiter final : public Inquiry, public std::enable_shared_from_this<Waiter> {
 public:
  using Finish = std::function<void(const Outcome&)>;

  /// Made at `at`. `denied`: the store was asked for it before and denied it, just now.
  Waiter(Wish wish, std::optional<Decision> denied, Timekeeper::TimePoint at, Finish finish);

  /// From now on `stop` ends it.
  void heed(const std::shared_ptr<Timekeeper>& keeper, const std::stop_token& stop);

  /// Asks the store. True: the outcome is there. False: the asking goes on, and `then` will be
  /// called.
  bool ask(const std::shared_ptr<Timekeeper>& keeper, std::function<void()> then);
  const Outcome& outcome() const { return outcome_; }

  /// Ends it.
  void finish(const Outcome& outcome);
  /// Ends it at this time, denied: as the store said when it was asked last.
  void deny(Timekeeper::TimePoint when);
  /// It has ended: whatever it is granted is given back.
  bool is_done() const { return finish_ == nullptr; }
  /// Gives back what came too late. REQUIRES: is_done(), and an outcome has come.
  void give_back() const;

  const Wish& wish() const { return wish_; }
  /// Whether it wishes for a permit.
  bool lends() const { return wish_.permit != 0; }

  // What its line keeps of it.
  std::shared_ptr<WaitingLine> line;
  std::list<std::shared_ptr<Waiter>>::iterator place;
  std::optional<Timekeeper::Timer> patience;
  /// Its patience has ended: the answer that it waits for is the last one.
  bool is_last_try = false;
  /// The last denial, and when it came.
  std::optional<Decision> denied;
  Timekeeper::TimePoint denied_at;

 private:
  using StopCallback = std::stop_callback<std::function<void()>>;

  void answered() noexcept override;
  void take_answer();
  void leave();

  Wish wish_;
  Finish finish_;
  std::optional<StopCallback> stop_;
  Outcome outcome_;
  // While it asks:
  Request request_;
  Decision decision_;
  std::shared_ptr<Waiter> self_;
  std::shared_ptr<Timekeeper> keeper_;
  std::function<void()> then_;
};

/// A decision's retry_after where nobody knows better.
inline constexpr std::chrono::milliseconds kSoon{5};

/// Whether who has been denied has a chance within its patience: not of a bucket, which has said
/// how long it would take, and that that is too long.
bool can_wait(const Wish& wish, const Outcome& denied, Timekeeper::TimePoint now);

}  // namespace sluice
