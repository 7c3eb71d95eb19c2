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
#include "stores/memory/budget.h"
#include "stores/memory/table.h"

namespace sluice {

struct MemoryOptions {
  /// The most bytes for all states together, at least 1 MiB. Beyond that, each space may hold about
  /// 330 KiB, and all spaces together 330 MiB: see memory::Budget.
  std::size_t max_bytes = std::size_t{1} << 30;
  memory::TableOptions table;
};

/// Keeps states in the memory of this process. Each space is a separate table. For a batch, the
/// store first hashes all keys and prefetches their lines, and only then decides. Thread-safe.
///
/// Bounded by max_bytes, and by kMaxSpaces spaces. If there is no room for a new key, the store
/// considers the few keys near its place: it forgets one that is fresh, else the one with the
/// smallest reset_after among those that do not deny. If all of them deny, the new key is denied
/// with Source::kFull, whatever the operation: a charge or a block as well. A key that is blocked,
/// or whose permits are all held, counts as denying. A key with free permits does not: if it is
/// forgotten, its holders learn at their next renewal that their permits are lost, and until then
/// as many can be acquired again.
class MemoryStore final : public Store {
 public:
  static constexpr std::size_t kMaxSpaces = 16'384;
  static constexpr std::size_t kLeastBytes = std::size_t{1} << 20;

  explicit MemoryStore(const MemoryOptions& options = {});

  std::shared_ptr<Space> open_space(const LimitDefinition& limit) override {
    return open(limit, nullptr);
  }
  std::shared_ptr<Space> replace_space(const std::shared_ptr<Space>& held,
                                       const LimitDefinition& limit) override {
    return open(limit, held.get());
  }
  void decide(std::span<const Request> requests, Instant now,
              std::span<Decision> decisions) override;
  Decision decide_all(std::span<const Request> requests, Instant now) override;

  /// The place of a key that the caller has already hashed with secret(), for carry_out().
  memory::Place place_of(const Space& space, const KeyHash& key) const {
    return static_cast<const memory::Table&>(space).place_of(key);
  }
  /// As decide(), for requests whose keys are at these places, and without returning the decisions.
  /// REQUIRES: places.size() >= requests.size().
  void carry_out(std::span<const memory::Place> places, std::span<const Request> requests,
                 Instant now);
  const HashSecret& secret() const { return options_.table.secret; }

  Instant now() const override { return clock_.now(); }
  std::optional<std::uint64_t> count_keys() override;

  /// For metrics and tests.
  std::size_t used_bytes() const { return pool_->budget.used_bytes(); }
  const memory::Counters& counters() const { return pool_->counters; }

 private:
  void decide_each(std::span<const Request> requests, Instant now, std::span<Decision> decisions);
  std::shared_ptr<memory::Table> open(const LimitDefinition& limit, const Space* held);
  std::shared_ptr<memory::Table> forget_idle_space();

  const MemoryOptions options_;
  const Clock clock_;
  const std::shared_ptr<memory::Pool> pool_;
  std::mutex mutex_;  // Guards the members below.
  std::map<std::string, std::shared_ptr<memory::Table>, std::less<>> spaces_;
  std::string forget_after_;  // Where the last search for an idle space ended.
};

}  // namespace sluice
