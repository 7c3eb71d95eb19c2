#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "core/instant.h"
#include "core/store.h"
#include "limiter/deny_cache.h"
#include "limiter/failure_policy.h"

namespace sluice {

struct GuardOptions {
  static constexpr std::int64_t kMostShares = 1000;

  OnFailure on_failure = OnFailure::kLocal;
  /// This process alone answers for one local_share-th of each limit, rounded down: of a limit
  /// below it, for none. From 1 to kMostShares.
  std::int64_t local_share = 1;
  /// What the local states may take, as MemoryOptions::max_bytes.
  std::size_t local_bytes = std::size_t{64} << 20;
  bool deny_cache = true;
};

/// What a guarded store has answered in the store's place, since it was made.
struct GuardCounters {
  std::uint64_t cached_denials = 0;
  /// Requests, or groups of them, that the store did not answer; each of them is then one of these,
  /// unless the policy is to raise.
  std::uint64_t unanswered = 0;
  std::uint64_t local_answers = 0;
  std::uint64_t policy_answers = 0;
};

/// A store that always answers, around one that may not.
///
/// - Each request that the store leaves unanswered is answered by the policy, it alone; those asked
///   together, together. Whether the store charged it is not known.
/// - The local states are warm: what the store admits, gets back and forgets through this process,
///   they follow, each unit as local_share of theirs; what is past their own limit is not noted. So
///   when the store is lost, they go on from what this process did, and no further than its share.
///   A refund or reset that the store does not answer happens to them alone.
/// - What the store denied is denied again without asking it: see DenyCache. This is for requests
///   asked one by one, by the store's own clock: an `&` is one request, a group asked together is
///   not.
///
/// Thread-safe, and takes no lock that all callers share but in open_space().
class GuardedStore final : public Store {
 public:
  /// Throws StoreError where the options are out of range.
  GuardedStore(std::shared_ptr<Store> inner, const GuardOptions& options);
  ~GuardedStore() override;

  /// The keys of a space are denied anew once it is opened with other numbers, except where each
  /// call has its own (LimitDefinition::varies).
  std::shared_ptr<Space> open_space(const LimitDefinition& limit) override;
  /// Under OnFailure::kRaise throws StoreError after all that the store answered is decided; under
  /// another policy, never because the store did not answer.
  void decide(std::span<const Request> requests, Instant now,
              std::span<Decision> decisions) override;
  Decision decide_all(std::span<const Request> requests, Instant now) override;
  /// What is unanswered later, or without a StoreError, is told by Inquiry::fault.
  bool submit(Inquiry& inquiry) override;
  bool answers_later() const override { return inner_->answers_later(); }
  Instant now() const override { return inner_->now(); }

  GuardCounters counters() const;

 private:
  class Round;
  struct UsualRoom;
  class GuardedInquiry;
  class GuardedSpace;
  struct Tally {
    std::atomic<std::uint64_t> cached_denials{0};
    std::atomic<std::uint64_t> unanswered{0};
    std::atomic<std::uint64_t> local_answers{0};
    std::atomic<std::uint64_t> policy_answers{0};
  };

  const GuardOptions options_;
  const Clock clock_;                   // What it says is compared with itself alone.
  const std::unique_ptr<Store> local_;  // Null unless the policy is local.
  std::optional<DenyCache> denials_;
  Tally tally_;
  std::mutex mutex_;  // guards the next three
  std::map<std::string, std::weak_ptr<GuardedSpace>, std::less<>> spaces_;
  std::size_t drop_at_ = 64;  // So many spaces, and those that nobody holds are dropped.
  std::uint64_t last_number_ = 0;
  // The last, so that it is the first to go: it answers what is still under way.
  const std::shared_ptr<Store> inner_;
};

}  // namespace sluice
