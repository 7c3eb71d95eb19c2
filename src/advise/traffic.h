#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "advise/demand.h"
#include "advise/key_profile.h"
#include "advise/limit_families.h"
#include "core/instant.h"
#include "replay/request_sink.h"
#include "replay/tally.h"

namespace sluice::advise {

/// What is kept of one key.
struct KeyTraffic {
  std::string key;
  std::uint64_t hash = 0;
  /// Of a key that was kept as a busy one: its requests until then, with those of keys that had the
  /// same counter. They are not measured.
  std::uint64_t earlier = 0;
  std::uint64_t requests = 0;
  /// How many of these are measured: those that are no peeks.
  std::uint64_t measured = 0;
  std::uint64_t client_errors = 0;
  std::uint64_t server_errors = 0;
  Instant first_ns = 0;
  Instant last_ns = 0;
  FrequentTexts user_agents;
  FrequentTexts paths;
  std::array<Demand<TokenBucket>, kRates> buckets;
  std::array<Demand<SlidingWindow>, kWindows> sliding;
  std::array<Demand<FixedWindow>, kWindows> fixed;
  std::array<Demand<SlidingCounter>, kWindows> counters;
  std::array<Demand<SlidingLog>, kWindows> logs;
  /// Of the table's budget.
  std::size_t bytes = 0;

  /// Demand::peak() and Demand::denied() by the number of the family.
  std::int64_t peak(std::size_t family) const;
  std::uint64_t denied(std::size_t family, std::size_t limit) const;
};

/// How many bytes the keys may need, about; beyond it the keys become a sample.
inline constexpr std::size_t kDefaultTrafficBytes = std::size_t{512} << 20;

/// Measures the traffic of each key: what it asks of each family of limits, and what its requests
/// look like. Not thread-safe.
///
/// Its memory is bounded. While there is room it keeps every key. Then it keeps a sample: the keys
/// whose hash is a multiple of a power of two, which is doubled whenever room is missing; each kept
/// key is kept from its first request on. Besides, it keeps the busiest keys, those with at least
/// a thousandth of all requests, since limits are made for them; one of these that is not in the
/// sample is kept from the moment at which it turned out to be busy.
class Traffic : public replay::RequestSink {
 public:
  explicit Traffic(std::size_t max_bytes = kDefaultTrafficBytes);

  std::span<const std::string_view> details() const override;
  void add(const replay::LoggedRequest& request) override;

  /// Whether every instant is a whole second.
  bool is_in_seconds() const { return is_in_seconds_; }
  /// Whether the lines had statuses.
  bool has_status() const { return has_status_; }

  /// Whether keys were left out.
  bool is_sample() const { return mask_ != 0; }

  /// A kept key, and how many keys it stands for: 1, if all are kept or it is one of the busiest.
  struct Weighted {
    const KeyTraffic* key = nullptr;
    std::uint64_t weight = 1;
  };

  /// The kept keys in no particular order; valid until the next add().
  std::vector<Weighted> keys() const;

  const TextNumbers& user_agents() const { return user_agents_; }
  const TextNumbers& paths() const { return paths_; }

 private:
  KeyTraffic* find(std::string_view key);
  bool is_sampled(std::uint64_t hash) const;
  bool is_busy(const KeyTraffic& key) const;
  bool is_busy(std::uint64_t requests) const;
  void measure(KeyTraffic& key, const replay::LoggedRequest& request);
  void describe(KeyTraffic& key, const replay::LoggedRequest& request);
  void make_room();

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  /// A key is in the sample if the bits of its hash that this mask selects are 0. It selects none
  /// while all keys are kept.
  std::uint64_t mask_ = 0;
  boost::unordered_flat_map<std::string_view, std::unique_ptr<KeyTraffic>, replay::LoggedKeyHash>
      keys_;
  /// The requests of keys that are not kept, by some bits of their hash, so that a busy one is
  /// noticed.
  std::vector<std::uint64_t> left_out_;
  TextNumbers user_agents_;
  TextNumbers paths_;
  std::uint64_t requests_ = 0;
  bool is_in_seconds_ = true;
  bool has_status_ = false;
};

}  // namespace sluice::advise
