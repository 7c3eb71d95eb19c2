#pragma once

#include <array>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/batch.h"
#include "core/block.h"
#include "core/hash_secret.h"
#include "core/store.h"
#include "sluice/health.h"

namespace sluice {

/// Identifies a key of a FallbackStore: the number of its space, and its hash.
struct KeyName {
  std::uint64_t space = 0;
  KeyHash key;

  auto operator<=>(const KeyName&) const = default;
};

/// A space of the inner store, and the space of the local states. Batches for late answers hold a
/// share of it.
class FallbackSpace final : public Space, public std::enable_shared_from_this<FallbackSpace> {
 public:
  static FallbackSpace& of(const Batch::Subject& subject) {
    return static_cast<FallbackSpace&>(*subject.space);
  }

  /// Counts the decision of a request, if it is not an answer of the inner store.
  void count(const Request& request, const Decision& decision) {
    if (!can_be_denied(request.operation, request.cost)) return;
    count_of(decision).fetch_add(1, std::memory_order_relaxed);
  }
  /// The same for an answer of the inner store. Called by one thread at a time, so that it costs no
  /// atomic instruction.
  void count_answer(const Request& request, const Decision& decision) {
    if (!can_be_denied(request.operation, request.cost)) return;
    Count& count = count_of(decision);
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void add_counts(const std::string& limit, std::vector<DecisionCount>& counts) const {
    for (const bool allowed : {true, false}) {
      for (std::size_t source = 0; source < kSources; ++source) {
        const auto count = decisions_[allowed ? 1 : 0][source].load(std::memory_order_relaxed);
        if (count != 0) counts.push_back({limit, allowed, static_cast<Source>(source), count});
      }
    }
  }

  /// A limit of this space that outlives the request.
  std::shared_ptr<const LimitDefinition> keep(const LimitDefinition& limit) {
    const std::lock_guard lock(kept_mutex_);
    if (kept_ == nullptr || kept_->expression != limit.expression) {
      kept_ = std::make_shared<const LimitDefinition>(limit);
    }
    return kept_;
  }

  std::shared_ptr<Space> inner;
  std::shared_ptr<Space> local;
  /// Identifies the space in the last answers.
  std::uint64_t number = 0;

 private:
  using Count = std::atomic<std::uint64_t>;

  static constexpr std::size_t kSources = static_cast<std::size_t>(Source::kUnavailable) + 1;

  Count& count_of(const Decision& decision) {
    return decisions_[decision.allowed ? 1 : 0][static_cast<std::size_t>(decision.source)];
  }

  // By whether they were allowed, and by Decision::source.
  std::array<std::array<Count, kSources>, 2> decisions_{};
  std::mutex kept_mutex_;
  std::shared_ptr<const LimitDefinition> kept_;  // guarded by kept_mutex_
};

}  // namespace sluice
