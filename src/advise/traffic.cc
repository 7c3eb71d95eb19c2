#include "advise/traffic.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>

namespace sluice::advise {
namespace {

/// A key with at least this share of all requests is busy.
constexpr std::uint64_t kBusyShare = 1'000;
constexpr std::uint64_t kBusyRequests = 1'000;
constexpr std::size_t kLeftOutCounters = std::size_t{1} << 16;
constexpr std::int64_t kSecond = 1'000'000'000;

/// A key's share of the table.
constexpr std::size_t kSlotBytes = 64;

std::size_t bytes_of(const KeyTraffic& key) {
  std::size_t bytes = sizeof(KeyTraffic) + kSlotBytes + key.key.capacity();
  for (const auto& demand : key.buckets) bytes += demand.heap_bytes();
  for (const auto& demand : key.sliding) bytes += demand.heap_bytes();
  for (const auto& demand : key.fixed) bytes += demand.heap_bytes();
  return bytes;
}

/// The text up to the query, so that the pages of one script are one path.
std::string_view without_query(std::string_view path) {
  return path.substr(0, path.find('?'));
}

}  // namespace

std::int64_t KeyTraffic::peak(std::size_t family) const {
  if (family < kFirstSliding) return buckets[family].peak();
  if (family < kFirstFixed) return sliding[family - kFirstSliding].peak();
  return fixed[family - kFirstFixed].peak();
}

std::uint64_t KeyTraffic::denied(std::size_t family, std::size_t limit) const {
  if (family < kFirstSliding) return buckets[family].denied(limit);
  if (family < kFirstFixed) return sliding[family - kFirstSliding].denied(limit);
  return fixed[family - kFirstFixed].denied(limit);
}

std::size_t Traffic::KeyHash::operator()(std::string_view key) const {
  return XXH3_64bits(key.data(), key.size());
}

Traffic::Traffic(std::size_t max_bytes) : max_bytes_(max_bytes), left_out_(kLeftOutCounters) {}

void Traffic::begin_file(replay::LineReader& reader) {
  status_slot_ = reader.optional_slot("status");
  user_agent_slot_ = reader.optional_slot("user_agent");
  path_slot_ = reader.optional_slot("path");
}

void Traffic::add(const replay::Record& record, const replay::KeyTemplate& key) {
  const Instant now = record.time_ns;
  if (requests_++ == 0) first_ns_ = last_ns_ = now;
  for (std::size_t i = 0; i < kDisorders.size() && last_ns_ - now > kDisorders[i]; ++i) {
    ++further_back_[i];
  }
  first_ns_ = std::min(first_ns_, now);
  last_ns_ = std::max(last_ns_, now);
  is_in_seconds_ = is_in_seconds_ && now % kSecond == 0;
  key_text_.clear();
  key.append_key(record, key_text_);
  KeyTraffic* kept = find(key_text_);
  if (kept == nullptr) return;
  if (kept->requests++ == 0) kept->first_ns = kept->last_ns = now;
  kept->first_ns = std::min(kept->first_ns, now);
  kept->last_ns = std::max(kept->last_ns, now);
  describe(*kept, record);
  if (record.cost > 0) measure(*kept, record);
  if (bytes_ > max_bytes_) make_room();
}

/// The kept key with this text, which may be new; null if it is not to be kept.
KeyTraffic* Traffic::find(std::string_view key) {
  const auto found = keys_.find(key);
  if (found != keys_.end()) return found->second.get();
  const std::uint64_t hash = KeyHash()(key);
  // The table, the sample and the counters use different bits of the hash.
  if (!is_sampled(hash) && !is_busy(++left_out_[(hash >> 44) % kLeftOutCounters])) return nullptr;
  auto made = std::make_unique<KeyTraffic>();
  made->key = key;
  made->hash = hash;
  made->bytes = bytes_of(*made);
  bytes_ += made->bytes;
  KeyTraffic* kept = made.get();
  keys_.emplace(kept->key, std::move(made));
  return kept;
}

bool Traffic::is_sampled(std::uint64_t hash) const {
  return (hash >> 12 & mask_) == 0;
}

bool Traffic::is_busy(std::uint64_t requests) const {
  return requests >= kBusyRequests && requests >= requests_ / kBusyShare;
}

void Traffic::measure(KeyTraffic& key, const replay::Record& record) {
  const LimitFamilies& families = limit_families();
  const Call call{.now = record.time_ns, .cost = record.cost};
  const auto add_all = [&](auto& demands, const auto& of) {
    for (std::size_t i = 0; i < demands.size(); ++i) demands[i].add(of[i], call);
  };
  add_all(key.buckets, families.buckets);
  add_all(key.sliding, families.sliding);
  add_all(key.fixed, families.fixed);
  // A key's memory grows with the logarithm of what it asks for, so now and then is enough.
  if (!std::has_single_bit(key.requests)) return;
  const std::size_t bytes = bytes_of(key);
  bytes_ += bytes - key.bytes;
  key.bytes = bytes;
}

void Traffic::describe(KeyTraffic& key, const replay::Record& record) {
  const auto text = [&](const std::optional<std::size_t>& slot) {
    return slot ? record.fields[*slot] : std::string_view();
  };
  const std::string_view status = text(status_slot_);
  if (status.size() == 3) {
    has_status_ = true;
    key.client_errors += status[0] == '4' ? 1 : 0;
    key.server_errors += status[0] == '5' ? 1 : 0;
  }
  if (const std::string_view agent = text(user_agent_slot_); !agent.empty()) {
    has_user_agent_ = true;
    key.user_agents.add(user_agents_.number(agent));
  }
  if (const std::string_view path = text(path_slot_); !path.empty()) {
    has_path_ = true;
    key.paths.add(paths_.number(without_query(path)));
  }
}

/// Halves the sample until it needs at most half of the room, or only busy keys are left.
void Traffic::make_room() {
  while (bytes_ > max_bytes_ / 2 && mask_ >> 32 == 0) {
    mask_ = mask_ << 1 | 1;
    boost::unordered::erase_if(keys_, [this](const auto& entry) {
      const KeyTraffic& key = *entry.second;
      if (is_sampled(key.hash) || is_busy(key.requests)) return false;
      bytes_ -= key.bytes;
      return true;
    });
  }
}

std::int64_t Traffic::disorder_ns() const {
  if (further_back_.back() * 100 > requests_) return last_ns_ - first_ns_;
  std::size_t i = 0;
  while (i + 1 < kDisorders.size() && further_back_[i] * 100 > requests_) ++i;
  return kDisorders[i];
}

std::vector<Traffic::Weighted> Traffic::keys() const {
  std::vector<Weighted> kept;
  for (const auto& [text, key] : keys_) {
    if (is_sample() && is_busy(key->requests)) {
      kept.push_back({key.get(), 1});
    } else if (is_sampled(key->hash)) {
      kept.push_back({key.get(), mask_ + 1});
    }
  }
  return kept;
}

}  // namespace sluice::advise
