#pragma once

#include <map>
#include <string>
#include <string_view>

#include "stores/memory/limited_keys.h"

namespace sluice::memory {

// For the tests of this module: a table with a separate budget, by default so small that the table
// has only its floor, and with the same hashing in every run.
class LoneTable {
 public:
  struct Options {
    std::size_t max_bytes = 0;
    bool allow_when_full = false;
    bool varies = false;
  };

  explicit LoneTable(std::string_view expression) : LoneTable(expression, Options{}) {}
  LoneTable(std::string_view expression, const Options& options)
      : home_(definition_of(expression, options.varies)),
        pool_(std::make_shared<Pool>(options.max_bytes)),
        table_(home_, pool_,
               {.secret = HashSecret::fixed(), .allow_when_full = options.allow_when_full}) {}

  Decision take(std::string_view key, Instant now, std::int64_t cost = 1) {
    return take_by(home_, key, now, cost);
  }
  /// With other numbers than the table's.
  Decision take(const Limit& limit, std::string_view key, Instant now, std::int64_t cost = 1) {
    return take_by(limit.definition(), key, now, cost);
  }

  /// The standing of the keys in the shard of `key`, by tag: of the candidates for eviction only,
  /// or of all.
  std::map<Tag, Standing> neighbours(std::string_view key, Instant now, bool candidates) const {
    std::map<Tag, Standing> all;
    const Place place = table_.locate(key);
    const auto add = [&](Tag tag, Cell cell) {
      all.emplace(tag, standing(table_.home(), cell, now));
    };
    if (candidates) {
      place.shard->visit_candidates(place.tag, add);
    } else {
      place.shard->visit_all(add);
    }
    return all;
  }

  Table& table() { return table_; }
  std::size_t used_bytes() const { return pool_->budget.used_bytes(); }
  std::uint64_t evicted() const { return pool_->counters.evicted; }
  std::uint64_t refused_full() const { return pool_->counters.refused_full; }

 private:
  static LimitDefinition definition_of(std::string_view expression, bool varies) {
    LimitDefinition definition = Limit(expression).definition();
    definition.varies = varies;
    return definition;
  }

  Decision take_by(const LimitDefinition& limit, std::string_view key, Instant now,
                   std::int64_t cost) {
    const Request request{.limit = &limit, .space = &table_, .key = key, .cost = cost};
    Decision decision;
    table_.decide_one(request, now, Clock(), decision);
    return decision;
  }

  LimitDefinition home_;
  std::shared_ptr<Pool> pool_;
  Table table_;
};

}  // namespace sluice::memory
