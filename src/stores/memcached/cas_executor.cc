#include "stores/memcached/cas_executor.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "stores/memcached/memcached_space.h"

namespace sluice::memcached {
namespace {

using Step = KeyEntry::Step;

// The bytes of an entry, including what the table and the allocator add.
std::size_t bytes_of(const KeyEntry& key) {
  constexpr std::size_t kBeside = 96;
  return sizeof key + kBeside + key.name->capacity() + key.last.value.capacity();
}

const MemcachedSpace& space_of(const PendingRequest& pending) {
  return static_cast<const MemcachedSpace&>(*pending.requests[0].space);
}

// Whether it waits for a write that executes it.
bool awaits_write(const PendingRequest& pending) {
  return static_cast<const KeyEntry*>(pending.holder)->is_write() &&
         (pending.judged != nullptr || pending.decision->source != Source::kUnavailable);
}

}  // namespace

CasExecutor::CasExecutor(const MemcachedOptions& options, RemoteWorker& worker)
    : options_(options), worker_(worker), ring_(options.servers) {
  for (const auto& server : options.servers) {
    for (std::size_t i = 0; i < options.connections; ++i) {
      connections_.push_back(std::make_unique<Connection>(worker, server, *this));
    }
  }
  // A rehash later would delay all callers.
  keys_.reserve(options.max_kept_bytes / sizeof(KeyEntry));
}

Connection& CasExecutor::connection_of(std::string_view name) const {
  const std::size_t connection = std::hash<std::string_view>()(name) % options_.connections;
  return *connections_[ring_.server_of(name) * options_.connections + connection];
}

void CasExecutor::route(PendingRequest& pending) {
  assert(pending.requests.size() == 1);
  space_of(pending).name_of(pending.requests[0].key, name_);
  const auto found = keys_.find(name_);
  const bool is_known = found != keys_.end();
  Connection& connection = is_known ? found->second.connection : connection_of(name_);
  const std::string_view why = connection.why_not();
  if (!why.empty()) return worker_.fail(pending, why);
  const bool joins = is_known && found->second.under_way;
  if (!joins && under_way_ >= kMaxUnderWay) {
    return worker_.fail(pending, connection.name() + ": more than " + std::to_string(kMaxUnderWay) +
                                     " keys wait for their servers");
  }
  auto& [name, key] = is_known ? *found : *keys_.try_emplace(name_, connection).first;
  key.name = &name;
  pending.holder = &key;
  key.waiting.push_back(pending);
  if (!joins) begin_round(key);
}

void CasExecutor::flush() {
  for (const auto& connection : connections_) connection->flush();
}

// A judged request waits for the write: its decision is kept until then.
std::string CasExecutor::expire(PendingRequest& pending) {
  const KeyEntry& key = *static_cast<const KeyEntry*>(pending.holder);
  pending.may_be_executed = awaits_write(pending);
  pending.is_late = pending.may_be_executed || (key.is_in_flight && !key.is_write());
  if (pending.may_be_executed) {
    const std::span<const Decision> parts = pending.requests[0].parts;
    std::vector<Decision> judged{*pending.decision};
    judged.insert(judged.end(), parts.begin(), parts.end());
    pending.judged = std::make_unique<const std::vector<Decision>>(std::move(judged));
  } else if (!pending.is_late) {
    pending.unlink();
  }
  const std::string late = worker_.late_error(key.connection.name());
  if (key.losses == 0) return late;
  return late + ": others changed '" + *key.name + "' first, " + std::to_string(key.losses) +
         " times";
}

void CasExecutor::abandon(PendingRequest& pending) {
  pending.may_be_executed = awaits_write(pending);
  pending.unlink();
}

void CasExecutor::begin_round(KeyEntry& key) {
  assert(!key.under_way);
  if (key.last.is_known()) kept_bytes_ -= bytes_of(key);
  key.under_way = true;
  ++under_way_;
  key.losses = 0;
  next_round(key);
}

// Reads the key for the requests that wait now, if any. Those that are late are not tried again.
void CasExecutor::next_round(KeyEntry& key, bool claims) {
  for (auto next = key.waiting.begin(); next != key.waiting.end();) {
    PendingRequest& pending = *next++;
    if (!pending.is_late) continue;
    pending.unlink();
    worker_.fail(pending, "its time is up");
  }
  if (key.waiting.empty()) return end_round(key);
  key.step = Step::kRead;
  key.claims = claims;
  key.connection.send(key);
}

// The entry may be gone afterwards.
void CasExecutor::end_round(KeyEntry& key) {
  key.under_way = false;
  --under_way_;
  if (!key.last.is_known()) {
    keys_.erase(keys_.find(*key.name));
  } else {
    kept_bytes_ += bytes_of(key);
    make_room();
  }
}

void CasExecutor::make_room() {
  while (kept_bytes_ > options_.max_kept_bytes) {
    const std::size_t bucket = next_bucket_++ % keys_.bucket_count();
    const auto idle = std::find_if(keys_.begin(bucket), keys_.end(bucket),
                                   [](const auto& each) { return !each.second.under_way; });
    if (idle == keys_.end(bucket)) continue;
    kept_bytes_ -= bytes_of(idle->second);
    keys_.erase(keys_.find(idle->first));
  }
}

// Judges requests on the value that this process wrote last, without reading it. If that changes
// nothing, the value must be read nevertheless: without a write no refused token would show that
// another process has changed it.
void CasExecutor::on_sending(KeyEntry& key) {
  key.is_in_flight = true;
  if (key.is_write() || key.waiting.empty()) return;
  const Instant now = wall_now();
  if (!key.last.is_current(key.connection.number(), now)) return;
  if (!state_.read(key.last.value, space_of(key.waiting.front()))) return;
  key.judged_token = key.last.token;
  judge(key, now);
  if (!prepare_write(key, now)) judge_again(key);
}

void CasExecutor::on_reply(KeyEntry& key, const MetaReply& reply,
                           Connection::Clock::time_point arrived) {
  key.is_in_flight = false;
  key.claims = false;
  if (key.is_write()) {
    on_written(key, reply, arrived);
  } else {
    on_read(key, reply, arrived);
  }
}

void CasExecutor::on_read(KeyEntry& key, const MetaReply& reply,
                          Connection::Clock::time_point arrived) {
  if (reply.code == Code::kError) {
    refuse(key.waiting, key.connection.name() + ": " + std::string(reply.text));
    return end_round(key);
  }
  LastWrite& last = key.last;
  if (reply.code == Code::kMiss || last.connection != key.connection.number()) last.token = 0;
  if (last.is_known()) last.contested = last.token != reply.token;
  if (reply.code == Code::kValue && reply.token == 0) {
    refuse(key.waiting, key.connection.name() + " keeps no cas tokens (-C), which Sluice needs");
    return end_round(key);
  }
  const bool may_wait = key.losses > 0 && !has_lost_for(key, options_.deadline / 2);
  if (reply.is_claimed && may_wait) return next_round(key);
  if (key.waiting.empty() || !read_state(key, reply)) return end_round(key);
  const Instant now = wall_now();
  worker_.monitor().on_clock(StoreMonitor::kOwnClock,
                             std::chrono::nanoseconds(reply.written_s * kSecondNs - now));
  judge(key, now);
  if (prepare_write(key, now)) return key.connection.send_now(key);
  key.losses = 0;
  answer(key.judged, arrived);
  next_round(key);
}

// False if the value cannot be read, and no waiting request removes it: all requests have failed
// then.
bool CasExecutor::read_state(KeyEntry& key, const MetaReply& reply) {
  key.judged_token.reset();
  state_.clear();
  if (reply.code == Code::kMiss) return true;
  key.judged_token = reply.token;
  if (state_.read(reply.text, space_of(key.waiting.front()))) return true;
  const std::string refusal = key.connection.name() +
                              ": the value of the key is damaged, or none that this store has "
                              "written";
  while (!key.waiting.empty()) {
    const PendingRequest& first = key.waiting.front();
    if (first.requests[0].operation == Operation::kReset) return true;
    worker_.refuse(key.waiting.pop_front(), refusal, " (key '" + *key.name + "')");
  }
  return false;
}

// Judges requests from the first one on, up to one of another kind, to which the state is another:
// that one begins the next round. REQUIRES: some wait.
void CasExecutor::judge(KeyEntry& key, Instant now) {
  const std::uint64_t kind = space_of(key.waiting.front()).kind();
  for (std::size_t i = 0; i < kMaxJudged && !key.waiting.empty(); ++i) {
    PendingRequest& pending = key.waiting.front();
    if (space_of(pending).kind() != kind) return;
    pending.unlink();
    *pending.decision =
        state_.decide(pending.requests[0], pending.now == kStoreTime ? now : pending.now);
    key.judged.push_back(pending);
  }
}

// Drops the decisions that were made and not carried out: their requests wait again, before later
// ones.
void CasExecutor::judge_again(KeyEntry& key) {
  for (PendingRequest& pending : key.judged) pending.may_be_executed = false;
  key.judged.append(key.waiting);
  key.waiting.append(key.judged);
}

// False if there is nothing to write: denials change nothing, and a missing value need not be
// removed.
bool CasExecutor::prepare_write(KeyEntry& key, Instant now) {
  if (!state_.changed()) return false;
  // The server's clock is real, even if the instants of the requests are not.
  const std::int64_t kept_ns = std::max(state_.lifetime_ns(), options_.virtual_time ? kDayNs : 0);
  const bool removes = state_.is_gone() || kept_ns == 0;
  if (removes && !key.judged_token) return false;
  key.step = removes ? Step::kRemove : Step::kWrite;
  key.last.token = 0;
  if (removes) return true;
  key.expiry_s = expiry_s(kept_ns, now);
  key.written_s = static_cast<std::uint32_t>(now / kSecondNs);
  key.last.kept_until = kept_until(kept_ns, now);
  written_.clear();
  state_.write(space_of(key.judged.front()), written_);
  key.last.value = std::string(written_);  // With no room to spare, as one of many.
  return true;
}

void CasExecutor::on_written(KeyEntry& key, const MetaReply& reply,
                             Connection::Clock::time_point arrived) {
  if (reply.code == Code::kDone) {
    if (key.step == Step::kWrite) key.last.token = reply.token;
    key.last.connection = key.connection.number();
    key.losses = 0;
    answer(key.judged, arrived);
    return next_round(key);
  }
  key.last.contested = reply.code == Code::kExists;
  if (reply.code != Code::kError) return on_race_lost(key);
  for (PendingRequest& pending : key.judged) pending.may_be_executed = false;
  refuse(key.judged, key.connection.name() + ": " + std::string(reply.text));
  next_round(key);
}

// Each race has a winner, so the next round begins at once.
void CasExecutor::on_race_lost(KeyEntry& key) {
  judge_again(key);
  key.step = Step::kRead;  // The server has refused the write: no request may be done.
  if (key.losses++ == 0) key.lost_at = Connection::Clock::now();
  next_round(key, has_lost_for(key, options_.deadline / 4));
}

// REQUIRES: it has lost a race.
bool CasExecutor::has_lost_for(const KeyEntry& key, std::chrono::nanoseconds time) {
  assert(key.losses > 0);
  return Connection::Clock::now() - key.lost_at >= time;
}

// A write that was not sent begins again with a read, because its token is not valid on the next
// connection.
void CasExecutor::on_lost(KeyEntry& key, Loss loss, std::string_view why) {
  key.is_in_flight = false;
  if (key.is_write() && loss == Loss::kMayBeExecuted) {
    for (PendingRequest& pending : key.judged) pending.may_be_executed = true;
    fail(key.judged, why);
    return next_round(key);
  }
  judge_again(key);
  next_round(key);
}

void CasExecutor::on_broken(KeyEntry& key, std::string_view why) {
  judge_again(key);
  fail(key.waiting, why);
  end_round(key);
}

void CasExecutor::answer(RequestList& judged, Connection::Clock::time_point arrived) {
  while (!judged.empty()) {
    PendingRequest& pending = judged.pop_front();
    if (pending.judged != nullptr) {
      *pending.decision = pending.judged->front();
      std::ranges::copy(pending.judged->begin() + 1, pending.judged->end(),
                        pending.requests[0].parts.begin());
    }
    worker_.complete(pending, arrived);
  }
}

void CasExecutor::fail(RequestList& pending, std::string_view why) {
  while (!pending.empty()) worker_.fail(pending.pop_front(), why);
}

void CasExecutor::refuse(RequestList& pending, const std::string& refusal) {
  while (!pending.empty()) worker_.refuse(pending.pop_front(), refusal);
}

}  // namespace sluice::memcached
