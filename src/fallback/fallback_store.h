#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/batch.h"
#include "core/instant.h"
#include "core/store.h"
#include "fallback/deny_cache.h"
#include "fallback/local_fallback.h"

namespace sluice {

/// What is answered where the store did not.
enum class OnFailure : std::uint8_t {
  kLocal,  ///< What a memory store of this process says: Source::kLocal.
  kAllow,  ///< Allowed, with nothing remaining: Source::kPolicy.
  kDeny,   ///< Denied, to be tried again after kPolicyWait; what takes nothing is allowed.
  kRaise,  ///< StoreError.
};

struct FallbackOptions {
  static constexpr std::int64_t kMostShares = 1000;

  OnFailure on_failure = OnFailure::kLocal;
  /// This process alone answers for one local_share-th of each limit, rounded down: of a limit
  /// below it, for none. From 1 to kMostShares.
  std::int64_t local_share = 1;
  /// What the local states may take, as MemoryOptions::max_bytes.
  std::size_t local_bytes = std::size_t{64} << 20;
  bool deny_cache = true;
};

/// What a FallbackStore has answered in the place of the store inside, since it was made.
struct FallbackCounters {
  std::atomic<std::uint64_t> cached_denials{0};
  /// Requests, or groups of them, that the store did not answer; each of them is then one of these,
  /// unless the policy is to raise.
  std::atomic<std::uint64_t> unanswered{0};
  std::atomic<std::uint64_t> local_answers{0};
  std::atomic<std::uint64_t> policy_answers{0};
};

/// A store that always answers, around one that may not.
///
/// - Each request that the store leaves unanswered is answered by the policy, it alone; those asked
///   together, together. Whether the store charged it is not known.
/// - What the store does through this process is mirrored into local states (see LocalFallback). So
///   when the store is lost, they go on from what this process did, and no further than its share.
///   What is not a take and the store does not answer happens to them alone.
/// - What the store did not give is not returned to it (Request::giver): what the local states
///   gave goes back to them; what the policy allowed was given by no state, and such a request is
///   allowed at once. What the store gave and does not answer is renewed or released in the local
///   states, which answer as Source::kLocal: the store has then not renewed it. Where it is not
///   known whether the store gave it (Source::kUnavailable), only the store is asked: no policy
///   answers in its place.
/// - What the store denied is denied again without asking it: see DenyCache. This is for takes
///   asked one by one, by the store's own clock, and not for permits: an `&` is one request, a
///   group asked together is not.
///
/// Requests that are pending when it is destroyed complete as the policy says.
///
/// Thread-safe, and takes no lock that all callers share but in open_space().
class FallbackStore final : public Store {
 public:
  /// Throws StoreError where the options are out of range, or the system has no random bytes.
  FallbackStore(std::shared_ptr<Store> inner, const FallbackOptions& options);

  /// The keys of a space are denied anew once it is opened with other numbers, except where each
  /// call has its own (LimitDefinition::varies).
  std::shared_ptr<Space> open_space(const LimitDefinition& limit) override;
  std::shared_ptr<Space> replace_space(const std::shared_ptr<Space>& held,
                                       const LimitDefinition& limit) override;
  /// Under OnFailure::kRaise throws StoreError after all that the store answered is decided; under
  /// another policy, never because the store did not answer.
  void decide(std::span<const Request> requests, Instant now,
              std::span<Decision> decisions) override;
  Decision decide_all(std::span<const Request> requests, Instant now) override;
  void submit(std::unique_ptr<Batch> batch) override;
  bool answers_later() const override { return inner_->answers_later(); }
  std::unique_ptr<Watch> watch(const std::shared_ptr<Space>& space, std::string_view key,
                               std::function<void()> released) override;
  Instant now() const override { return inner_->now(); }

  const FallbackCounters& counters() const { return counters_; }

  /// Whether the calling thread runs the completion of a batch that was given to a FallbackStore:
  /// it may be the worker thread of the store inside, which must not be destroyed there.
  static bool is_completing();

 private:
  class FallbackSpace;
  class Settling;

  Instant decided_at(Instant now) const { return now == kStoreTime ? clock_.now() : now; }
  /// A lower bound of when it is sent, some milliseconds before it at most: is_denied_again() says
  /// where it has to be a better one.
  Instant sent_at(Instant now) const { return now == kStoreTime ? clock_.now_cheaply() : now; }

  bool is_answered_here(const Request& request, Instant now, Instant& sent, Decision& decision);
  bool is_denied_again(const Request& request, Instant now, Instant& sent, Decision& decision);
  bool ask_and_wait(Batch& batch, Instant sent);
  void pass_on(std::unique_ptr<Batch> batch, Instant sent);

  const FallbackOptions options_;
  const Clock clock_;                           // What it says is compared with itself alone.
  const std::unique_ptr<LocalFallback> local_;  // Null unless the policy is local.
  const HashSecret secret_;                     // The local states' too: a key is hashed once.
  std::optional<DenyCache> denials_;
  FallbackCounters counters_;
  std::mutex mutex_;  // guards the next three
  std::map<std::string, std::weak_ptr<FallbackSpace>, std::less<>> spaces_;
  std::size_t drop_at_ = 64;  // So many spaces, and those that are not held are dropped.
  std::uint64_t last_number_ = 0;
  // The last, so that it is destroyed first: it completes what is pending.
  const std::shared_ptr<Store> inner_;
};

}  // namespace sluice
