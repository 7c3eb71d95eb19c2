#include "advise/traffic.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace sluice::advise {
namespace {

/// A key with at least this share of all requests is busy.
constexpr std::uint64_t kBusyShare = 1'000;
constexpr std::uint64_t kBusyRequests = 1'000;
constexpr std::size_t kLeftOutCounters = std::size_t{1} << 16;

constexpr std::string_view kDetails[] = {"status", "user_agent", "path"};

/// A key's share of the table.
constexpr std::size_t kSlotBytes = 64;

std::size_t bytes_of(const KeyTraffic& key) {
  std::size_t bytes = sizeof(KeyTraffic) + kSlotBytes + key.key.capacity();
  for (const auto& demand : key.buckets) bytes += demand.heap_bytes();
  for (const auto& demand : key.sliding) bytes += demand.heap_bytes();
  for (const auto& demand : key.fixed) bytes += demand.heap_bytes();
  for (const auto& demand : key.counters) bytes += demand.heap_bytes();
  for (const auto& demand : key.logs) bytes += demand.heap_bytes();
  return bytes;
}

/// Calls with the demand of the family with this number.
template <class Function>
auto visit(const KeyTraffic& key, std::size_t family, const Function& function) {
  if (family < kFirstSliding) return function(key.buckets[family]);
  if (family < kFirstFixed) return function(key.sliding[family - kFirstSliding]);
  if (family < kFirstCounter) return function(key.fixed[family - kFirstFixed]);
  if (family < kFirstLog) return function(key.counters[family - kFirstCounter]);
  return function(key.logs[family - kFirstLog]);
}

/// The text up to the query, so that the pages of one script are one path.
std::string_view without_query(std::string_view path) {
  return path.substr(0, path.find('?'));
}

}  // namespace

std::int64_t KeyTraffic::peak(std::size_t family) const {
  return visit(*this, family, [](const auto& demand) { return demand.peak(); });
}

std::uint64_t KeyTraffic::denied(std::size_t family, std::size_t limit) const {
  return visit(*this, family, [&](const auto& demand) { return demand.denied(limit); });
}

Traffic::Traffic(std::size_t max_bytes) : max_bytes_(max_bytes), left_out_(kLeftOutCounters) {}

std::span<const std::string_view> Traffic::details() const {
  return kDetails;
}

void Traffic::add(const replay::LoggedRequest& request) {
  const Instant now = request.time_ns;
  ++requests_;
  is_in_seconds_ = is_in_seconds_ && now % kSecondNs == 0;
  KeyTraffic* kept = find(request.key);
  if (kept == nullptr) return;
  if (kept->requests++ == 0) kept->first_ns = kept->last_ns = now;
  kept->first_ns = std::min(kept->first_ns, now);
  kept->last_ns = std::max(kept->last_ns, now);
  describe(*kept, request);
  if (request.cost > 0) measure(*kept, request);
  if (bytes_ > max_bytes_) make_room();
}

/// The kept key with this text, which may be new; null if it is not to be kept.
KeyTraffic* Traffic::find(std::string_view key) {
  const auto found = keys_.find(key);
  if (found != keys_.end()) return found->second.get();
  const std::uint64_t hash = replay::LoggedKeyHash()(key);
  std::uint64_t earlier = 0;
  if (!is_sampled(hash)) {
    // The table, the sample and the counters use different bits of the hash.
    std::uint64_t& left_out = left_out_[(hash >> 44) % kLeftOutCounters];
    if (!is_busy(left_out + 1)) {
      ++left_out;
      return nullptr;
    }
    earlier = std::exchange(left_out, 0);
  }
  auto made = std::make_unique<KeyTraffic>();
  made->key = key;
  made->hash = hash;
  made->earlier = earlier;
  made->bytes = bytes_of(*made);
  bytes_ += made->bytes;
  KeyTraffic* kept = made.get();
  keys_.emplace(kept->key, std::move(made));
  return kept;
}

bool Traffic::is_sampled(std::uint64_t hash) const {
  return (hash >> 12 & mask_) == 0;
}

bool Traffic::is_busy(const KeyTraffic& key) const {
  return is_busy(key.earlier + key.requests);
}

bool Traffic::is_busy(std::uint64_t requests) const {
  return requests >= kBusyRequests && requests >= requests_ / kBusyShare;
}

void Traffic::measure(KeyTraffic& key, const replay::LoggedRequest& request) {
  const LimitFamilies& families = limit_families();
  const Call call{.now = request.time_ns, .cost = request.cost};
  const auto add_all = [&](auto& demands, const auto& of) {
    for (std::size_t i = 0; i < demands.size(); ++i) demands[i].add(of[i], call);
  };
  add_all(key.buckets, families.buckets);
  add_all(key.sliding, families.sliding);
  add_all(key.fixed, families.fixed);
  add_all(key.counters, families.counters);
  add_all(key.logs, families.logs);
  // A key's memory at most doubles with what is measured, so now and then is enough.
  if (!std::has_single_bit(++key.measured)) return;
  const std::size_t bytes = bytes_of(key);
  bytes_ += bytes - key.bytes;
  key.bytes = bytes;
}

void Traffic::describe(KeyTraffic& key, const replay::LoggedRequest& request) {
  const std::string_view status = request.details[0];
  const std::string_view agent = request.details[1];
  const std::string_view path = request.details[2];
  if (status.size() == 3) {
    has_status_ = true;
    key.client_errors += status[0] == '4' ? 1 : 0;
    key.server_errors += status[0] == '5' ? 1 : 0;
  }
  if (!agent.empty()) key.user_agents.add(user_agents_.number(agent));
  if (!path.empty()) key.paths.add(paths_.number(without_query(path)));
}

/// Halves the sample until it needs at most half of the room, or only busy keys are left.
void Traffic::make_room() {
  while (bytes_ > max_bytes_ / 2 && mask_ >> 32 == 0) {
    mask_ = mask_ << 1 | 1;
    boost::unordered::erase_if(keys_, [this](const auto& entry) {
      const KeyTraffic& key = *entry.second;
      if (is_sampled(key.hash) || is_busy(key)) return false;
      bytes_ -= key.bytes;
      return true;
    });
  }
}

std::vector<Traffic::Weighted> Traffic::keys() const {
  std::vector<Weighted> kept;
  for (const auto& [text, key] : keys_) {
    if (is_sample() && is_busy(*key)) {
      kept.push_back({key.get(), 1});
    } else if (is_sampled(key->hash)) {
      kept.push_back({key.get(), mask_ + 1});
    }
  }
  return kept;
}

}  // namespace sluice::advise
