#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "core/instant.h"
#include "core/store.h"
#include "stores/memory/table.h"

namespace sluice {

struct MemoryOptions {
  /// The most bytes for all keys together, at least 1 MiB. The limits' own numbers may take 4 MiB
  /// and a 32nd of this in addition.
  std::size_t max_bytes = std::size_t{1} << 30;
  memory::TableOptions table;
  /// See StoreOptions::caller_clock.
  std::function<Instant()> caller_clock = {};
};

/// Keeps states in the memory of this process, in one table for all spaces. For a batch, the store
/// hashes keys and prefetches their lines some requests before it decides them. Thread-safe.
///
/// Bounded by max_bytes. If there is no room for a new key, the store considers the few keys near
/// its place: it forgets one that is fresh, else the one with the smallest reset_after among those
/// that do not deny, each judged by the numbers of its own limit (where the numbers vary, by those
/// of its last call). If all of them deny, the new key is denied with Source::kFull, whatever the
/// operation: a charge or a block as well. A key that is blocked, or whose permits are all held,
/// counts as denying. A key with free permits does not: if it is forgotten, its holders learn at
/// their next renewal that their permits are lost, and until then as many can be acquired again.
///
/// A state that does not fit its slot of the table needs a record. A sixteenth of max_bytes is left
/// to records. If one finds no room, the store considers more keys near its place, of which only
/// those with records give way.
///
/// A limit is forgotten once no caller holds its space and none of its keys is kept. If there is no
/// room for another limit, open_space() throws StoreError: no limit with a key that denies is
/// forgotten for it.
class MemoryStore final : public Store {
 public:
  /// The most limits whose spaces are held or have keys; fewer if max_bytes is small.
  static constexpr std::size_t kMaxLimits = memory::LimitTable::kMaxSpaces;
  static constexpr std::size_t kLeastBytes = std::size_t{1} << 20;

  explicit MemoryStore(const MemoryOptions& options = {});

  std::shared_ptr<Space> replace_space(const std::shared_ptr<Space>& held,
                                       const LimitDefinition& limit) override;
  void decide(std::span<const Request> requests, Instant now,
              std::span<Decision> decisions) override;
  using Store::decide_all;
  void decide_all(std::span<const Request> requests, Instant now, Decision& decision) override;

  /// From here on the store's clock goes on from `now`. REQUIRES: no space has been opened, and no
  /// other thread uses the store.
  void set_clock(Instant now) { clock_ = Clock(now); }
  Instant now() const override { return caller_clock_ ? caller_clock_() : clock_.now(); }
  std::optional<std::uint64_t> count_keys() override { return table_.size(); }
  std::optional<std::uint64_t> count_bytes() override { return used_bytes(); }
  void add_health(StoreHealth& health) const override;

  /// For metrics and tests.
  std::size_t used_bytes() const { return table_.used_bytes(); }
  const memory::Counters& counters() const { return table_.counters(); }
  /// For snapshots, and for callers that hash keys themselves.
  memory::Table& table() { return table_; }

 private:
  void decide_each(std::span<const Request> requests, Instant now, std::span<Decision> decisions);

  Clock clock_;
  const std::function<Instant()> caller_clock_;
  memory::Table table_;
};

}  // namespace sluice
