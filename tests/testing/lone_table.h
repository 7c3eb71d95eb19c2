#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "testing/memory_keys.h"

namespace sluice::memory {

// For the tests of stores/memory: a table with one limit, by default so small that it is soon full,
// and with the same hashing in every run.
class LoneTable {
 public:
  static constexpr std::size_t kFewBytes = std::size_t{256} << 10;

  struct Options {
    std::size_t max_bytes = kFewBytes;
    bool varies = false;
  };

  explicit LoneTable(std::string_view expression) : LoneTable(expression, Options{}) {}
  LoneTable(std::string_view expression, const Options& options)
      : home_(options.varies ? varying(expression, {}) : Limit(expression).definition()),
        table_(options.max_bytes, {.secret = HashSecret::fixed()}),
        space_(table_.limits().open(home_, nullptr).space) {}

  Decision take(std::string_view key, Instant now, std::int64_t cost = 1) {
    return take_by(home_, key, now, cost);
  }
  /// With other numbers than those of the table's limit.
  Decision take(const Limit& limit, std::string_view key, Instant now, std::int64_t cost = 1) {
    return take_by(limit.definition(), key, now, cost);
  }

  /// The numbers of the table's limit change.
  void change(const Limit& limit) {
    LimitDefinition changed = home_;
    changed.parts = limit.definition().parts;
    const auto opened = table_.limits().open(changed, nullptr);
    ASSERT_EQ(opened.space, space_);
    table_.wait_for_readers();
  }

  /// The standing of the keys in the shard of `key`, by tag: of the candidates for eviction only,
  /// or of all.
  std::map<Tag, Standing> neighbours(std::string_view key, Instant now, bool candidates) {
    std::map<Tag, Standing> all;
    const Place place = table_.locate({.limit = &home_, .space = space_.get(), .key = key});
    const auto add = [&](const Slot& slot) {
      all.emplace(slot.tag, standing(table_.limits().parts(slot.limit), slot.cell, now));
      return true;
    };
    if (candidates) {
      place.shard->visit_candidates(place.tag, add);
    } else {
      place.shard->visit_all(add);
    }
    return all;
  }

  Table& table() { return table_; }
  std::size_t used_bytes() const { return table_.used_bytes(); }
  std::uint64_t evicted() const { return table_.counters().evicted; }
  std::uint64_t without_room() const { return table_.counters().without_room; }

 private:
  Decision take_by(const LimitDefinition& limit, std::string_view key, Instant now,
                   std::int64_t cost) {
    const Request request{.limit = &limit, .space = space_.get(), .key = key, .cost = cost};
    Decision decision;
    table_.decide_one(request, now, Clock(), decision);
    return decision;
  }

  LimitDefinition home_;
  Table table_;
  std::shared_ptr<Space> space_;
};

}  // namespace sluice::memory
