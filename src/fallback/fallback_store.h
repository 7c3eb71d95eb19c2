#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/batch.h"
#include "core/instant.h"
#include "core/store.h"
#include "fallback/charge_back.h"
#include "fallback/failure_policy.h"
#include "fallback/last_answers.h"
#include "fallback/local_fallback.h"

namespace sluice {

class FallbackSpace;

struct FallbackOptions {
  static constexpr std::int64_t kMostShares = 1000;

  OnFailure on_failure = OnFailure::kLocal;
  /// Under kLocal, this process admits up to 1/local_share of each limit, rounded down; nothing of
  /// a limit below local_share. From 1 to kMostShares.
  std::int64_t local_share = 1;
  /// The most memory for the keys of the local states, and for what the store said last: half for
  /// each, which is at least 1 MiB. Under other policies only denials are kept, in 2 MiB.
  std::size_t local_bytes = std::size_t{64} << 20;
  /// For how long a denial of the store is repeated without asking it, at most; 0 for not at all.
  std::chrono::nanoseconds deny_cache = std::chrono::seconds(1);
};

/// What a FallbackStore counts of itself: the members of StoreHealth of these names.
struct FallbackCounters {
  std::atomic<std::uint64_t> answered_by_cache{0};
  std::atomic<std::uint64_t> answered_by_local{0};
  std::atomic<std::uint64_t> answered_by_policy{0};
  std::atomic<std::uint64_t> unanswered{0};
  std::atomic<std::uint64_t> charged_back{0};
  /// The table in docs/failure.md says which.
  std::atomic<std::uint64_t> not_charged_back{0};
};

/// A Store around another one, the inner store, which may not answer: where it does not, the
/// failure policy does.
///
/// - The policy answers each request that the inner store leaves unanswered (kUnavailable); a group
///   asked together is answered together. Whether the inner store charged it is not known. Under
///   OnFailure::kRaise the request stays unanswered, and decide() throws StoreError.
/// - What the inner store said last of each key is remembered (see LastAnswers), also if it says so
///   after the policy has answered (Batch::OuterStore). Under kLocal the local states are brought
///   to it when they must answer for the key (see LocalFallback::set_told()); but of permits, only
///   those of this process are known. An unanswered refund or reset changes the local states and
///   what is to be charged to the inner store; it is not sent again.
/// - What the local states have admitted is charged to the inner store when it can be asked again,
///   as far as it still counts by then. Not so if the inner store may have charged it already: it
///   was sent the request, or that charge, and never answered. What it certainly has not charged is
///   tried again when it answers.
/// - Refunds, renewals and releases go to the giver of the units or the permit (Request::giver). If
///   the local states gave it, only they are asked. If the policy allowed it, there is no state to
///   return it to, and the request is allowed at once. If the inner store gave it and does not
///   answer, the local states renew or release it and the decision is Source::kLocal: the inner
///   store has then not confirmed it. If it is not known whether the inner store gave it
///   (Request::is_reclaim), only the inner store is asked, and the policy does not answer for it.
/// - Whatever the policy has answered, Decision::taken of an acquisition may be kTakenUnknown.
/// - A take of units that the inner store has just denied is denied again without asking it (see
///   LastAnswers), at the store's own time, alone or in a batch. Groups asked together, permits,
///   and requests that want the decisions of parts always ask: only the inner store can say what
///   binds. What a group is told is remembered as if its requests had been asked one by one.
///
/// Requests that are pending when it is destroyed are completed by the policy.
///
/// Thread-safe. There are three locks for all keys. The first is held while a space is opened or
/// replaced, the second while the local states of units change: when they answer, when they mirror
/// an answer of the inner store (LocalFallback::mirrors()), which with a local_share is every
/// answer, and for each late answer. The third is that of ChargeBack: while it has something to
/// charge, each answer that admits units takes it.
class FallbackStore final : public BatchStore, private Batch::OuterStore {
 public:
  /// The caller keeps no share of `inner`: this object must be the one that destroys it, so that no
  /// batch is answered after this object is gone. Throws StoreError where the options are out of
  /// range, or the system has no random bytes.
  FallbackStore(std::shared_ptr<Store> inner, const FallbackOptions& options);

  std::shared_ptr<Space> replace_space(const std::shared_ptr<Space>& held,
                                       const LimitDefinition& limit) override;
  void submit(std::unique_ptr<Batch> batch) override;
  void submit_and_wait(std::unique_ptr<Batch> batch) override;
  bool answers_later() const override { return inner_->answers_later(); }
  Watch watch(const std::shared_ptr<Space>& space, std::string_view key,
              std::function<void()> released) override;
  Instant now() const override { return inner_->now(); }
  void add_health(StoreHealth& health) const override;
  void add_counts(std::vector<DecisionCount>& counts) const override;

  const FallbackCounters& counters() const { return counters_; }

  /// Whether the calling thread is running the completion of a batch of some FallbackStore. Then it
  /// may be the worker thread of the inner store, on which that store must not be destroyed.
  static bool is_completing();

 private:
  class Settling;
  /// What is known of a space by its name. It outlives the space, for the next one of that name.
  struct Known {
    std::weak_ptr<FallbackSpace> space;
    /// FallbackSpace::number, and the parts of the first limit that had it: another one is given to
    /// a limit that cannot read their states.
    std::uint64_t number = 0;
    std::vector<AnyPart> parts;
    bool is_gone = false;  ///< The space was gone when names were last dropped.
  };
  using Subject = Batch::Subject;
  using SteadyTime = std::chrono::steady_clock::time_point;

  Instant decided_at(Instant now) const { return now == kStoreTime ? clock_.now() : now; }
  /// When the answer to a request arrived, which was asked at `now`.
  Instant arrived_at(Instant now, SteadyTime arrived) const {
    return now == kStoreTime ? clock_.at(arrived) : now;
  }
  /// A lower bound of the send time, at most a few milliseconds earlier. repeat_denial() uses the
  /// exact time for keys that were denied.
  Instant sent_at(Instant now) const { return now == kStoreTime ? clock_.now_cheaply() : now; }

  static KeyName name_of(const Subject& subject);
  static Request in_local(const Subject& subject, const Request& request);
  /// After a refund or reset by this process, its callers ask the store at once. REQUIRES:
  /// answers_ is not null; the limit lends no permits.
  void ask_again_after(const Request& request, const KeyName& name) {
    const bool is_reset = request.operation == Operation::kReset;
    if (!is_reset && (request.operation != Operation::kRefund || request.cost == 0)) return;
    answers_->ask_again(name, clock_.now(), is_reset);
  }
  bool answer_inline(Subject& subject, const Request& request, Instant now, Instant& sent,
                     Decision& decision);
  bool repeat_denial(const Subject& subject, const Request& request, Instant now, Instant& sent,
                     Decision& decision);
  std::unique_ptr<Batch> left_to_ask(std::unique_ptr<Batch> batch);
  static void want_parts(Batch& batch);
  /// Records the answer: see settling.cc.
  void on_reply(Batch& batch, std::size_t i, SteadyTime arrived) noexcept override;
  /// Lets the policy decide what has no answer: see settling.cc.
  bool on_answered(Batch& batch) override;
  bool settle_late(Batch& batch);
  void record(const Batch& batch, std::size_t place, const Decision& answer, Instant arrived);
  void settle_admitted(Batch& batch, std::size_t place, const Decision& answer, Instant arrived);
  void bring_to_told(const Subject& subject, const Request& request, Instant now);
  void note_local(Subject& subject, const Request& request, const Decision& answer, Instant now,
                  bool is_sent);
  void count_not_charged_back(std::int64_t units);
  std::shared_ptr<FallbackSpace> space_of(const ChargeBack::Charge& charge);
  void charge_back(std::span<const KeyName> names, Instant now);
  void drop_names();

  static constexpr std::size_t kKeptNames = 1024;

  const FallbackOptions options_;
  const Clock clock_;                           // Never compared with the inner store's.
  const std::unique_ptr<LocalFallback> local_;  // Null unless the policy is local.
  const HashSecret secret_;  // The same as that of the local states: a key is hashed once.
  const std::unique_ptr<LastAnswers> answers_;  // Null if nothing of them is used.
  ChargeBack charges_;
  std::atomic<bool> is_charging_ = false;  // A batch of charges of any keys is under way.
  FallbackCounters counters_;
  // Held while the local states answer or change, and while a late answer is recorded, so that the
  // units that they admit, those in charges_ and what was told are seen together. (charge_back()
  // does without: units come into charges_ only once the local states count them.)
  std::mutex local_mutex_;
  mutable std::mutex mutex_;  // guards the next three
  std::map<std::string, Known, std::less<>> spaces_;
  std::size_t drop_at_ = kKeptNames;  // At this many names, drop_names() is called.
  std::uint64_t last_number_ = 0;
  // The last member, so that it is destroyed first: its destructor completes pending batches.
  const std::shared_ptr<Store> inner_;
};

}  // namespace sluice
