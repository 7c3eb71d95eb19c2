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

#include "core/instant.h"
#include "core/store.h"
#include "limiter/deny_cache.h"
#include "limiter/failure_policy.h"
#include "limiter/local_states.h"

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
/// - The local states are warm: what the store does through this process, they follow (see
///   LocalStates). So when the store is lost, they go on from what this process did, and no further
///   than its share. What is not a take and the store does not answer happens to them alone.
/// - What the store did not give is not given back to it (Request::giver): what the local states
///   gave goes back to them, what the policy allowed to nobody; such a request is allowed at once.
///   What the store gave and does not answer is renewed or released in the local states, which
///   answer as Source::kLocal: the store has then not renewed it. Of what nobody knows to have been
///   given (Source::kUnanswered) only the store is asked: no policy answers in its place.
/// - What the store denied is denied again without asking it: see DenyCache. This is for takes
///   asked one by one, by the store's own clock, and not for permits: an `&` is one request, a
///   group asked together is not.
///
/// Thread-safe, and takes no lock that all callers share but in open_space().
class GuardedStore final : public Store {
 public:
  /// Throws StoreError where the options are out of range, or the system has no random bytes.
  GuardedStore(std::shared_ptr<Store> inner, const GuardOptions& options);
  ~GuardedStore() override;

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
  /// What is unanswered later, or without a StoreError, is told by Inquiry::fault.
  bool submit_inquiry(Inquiry& inquiry) override;
  bool answers_later() const override { return inner_->answers_later(); }
  std::unique_ptr<Watch> watch(const std::shared_ptr<Space>& space, std::string_view key,
                               std::function<void()> released) override;
  Instant now() const override { return inner_->now(); }

  GuardCounters counters() const;

  /// Whether the calling thread is one that tells an inquiry of a guarded store that it is
  /// answered: that store's own perhaps, on which it must not be destroyed.
  static bool is_telling();

 private:
  class Round;
  class Room;
  class GuardedInquiry;
  class Answers;
  class GuardedSpace;
  struct Opened {
    std::shared_ptr<Space> inner;
    std::shared_ptr<Space> local;
  };
  struct Tally {
    std::atomic<std::uint64_t> cached_denials{0};
    std::atomic<std::uint64_t> unanswered{0};
    std::atomic<std::uint64_t> local_answers{0};
    std::atomic<std::uint64_t> policy_answers{0};
  };

  std::shared_ptr<GuardedSpace> open(const LimitDefinition& limit, Opened opened);
  /// When what is asked now is asked, or a moment before, and never after, on which the deny cache
  /// relies: who is told, and asks again, shares a look at the clock with the few who are told with
  /// it, or has the cheap one where they take long.
  Instant asked_at() const;
  /// Of a round or an inquiry that is not under way any more.
  template <class Asked>
  bool finish(Asked& asked);

  const GuardOptions options_;
  const Clock clock_;                         // What it says is compared with itself alone.
  const std::unique_ptr<LocalStates> local_;  // Null unless the policy is local.
  const HashSecret secret_;                   // The local states' too: a key is hashed once.
  std::optional<DenyCache> denials_;
  Tally tally_;
  const std::unique_ptr<Answers> answers_;
  std::mutex mutex_;  // guards the next three
  std::map<std::string, std::weak_ptr<GuardedSpace>, std::less<>> spaces_;
  std::size_t drop_at_ = 64;  // So many spaces, and those that nobody holds are dropped.
  std::uint64_t last_number_ = 0;
  // The last, so that it is the first to go: it answers what is still under way.
  const std::shared_ptr<Store> inner_;
};

}  // namespace sluice
