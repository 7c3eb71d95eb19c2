#include "stores/memcached/carrier.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "core/limit_syntax.h"
#include "stores/memcached/expiry.h"
#include "stores/memcached/memcached_space.h"

namespace sluice::memcached {
namespace {

// How many turns, and counts, are kept to be used again, and with how much room.
constexpr std::size_t kMaxIdle = 1'024;
constexpr std::size_t kMaxIdleBytes = 4'096;
constexpr std::size_t kMaxSwept = 512;  // At a time.
constexpr std::int64_t kDayNs = 86'400'000'000'000;

std::vector<std::string> names(const std::vector<Endpoint>& servers) {
  std::vector<std::string> result;
  for (const auto& server : servers) result.push_back(server.text());
  return result;
}

}  // namespace

MemcachedCarrier::MemcachedCarrier(const MemcachedOptions& options)
    : options_(options), ring_(names(options.servers)), random_(std::random_device{}()) {
  for (const auto& server : options.servers) {
    for (std::size_t i = 0; i < options.connections; ++i) {
      const LaneSettings settings{.endpoint = server, .silence = 2 * options.deadline};
      lanes_.push_back(std::make_unique<Lane>(settings));
    }
  }
}

MemcachedCarrier::~MemcachedCarrier() = default;

Lane& MemcachedCarrier::lane_of(std::string_view key) {
  const std::size_t connection =
      options_.connections == 1 ? 0 : std::hash<std::string_view>()(key) % options_.connections;
  return *lanes_[ring_.server_of(key) * options_.connections + connection];
}

void MemcachedCarrier::carry(Errand& errand) {
  const Request& request = errand.requests[0];
  static_cast<const MemcachedSpace&>(*request.space).name_of(request.key, name_);
  const auto known = turns_.find(name_);
  Lane& lane = known != turns_.end() ? *known->second->lane : lane_of(name_);
  if (const auto fault = lane.fault()) return courier_->fail(errand, *fault);
  const bool begins = known == turns_.end();
  if (begins && under_way() >= kMaxUnderWay) {
    return courier_->fail(errand, lane.name() + ": too many keys wait for their servers");
  }
  if (!options_.exact) {
    if (const auto windows = sub_windows_of(*request.limit)) return count(errand, *windows, lane);
  }
  Turn& turn = begins ? begin_turn(lane, name_) : *known->second;
  if (begins) read(turn);
  errand.holder = static_cast<Query*>(&turn);
  turn.waiting.push_back(errand);
}

Turn& MemcachedCarrier::begin_turn(Lane& lane, std::string_view key) {
  if (idle_turns_.empty()) idle_turns_.push_back(std::make_unique<Turn>(*this));
  std::unique_ptr<Turn> turn = std::move(idle_turns_.back());
  idle_turns_.pop_back();
  turn->key = key;
  turn->lane = &lane;
  turn->losses = 0;
  touch(lane);
  const std::string_view own_key = turn->key;
  return *turns_.emplace(own_key, std::move(turn)).first->second;
}

void MemcachedCarrier::end_turn(Turn& turn) {
  auto node = turns_.extract(turn.key);
  const bool keep = idle_turns_.size() < kMaxIdle && turn.value.capacity() <= kMaxIdleBytes;
  if (keep) idle_turns_.push_back(std::move(node.mapped()));
  if (swept_) sweep_on();
}

void MemcachedCarrier::touch(Lane& lane) {
  if (std::ranges::find(touched_, &lane) == touched_.end()) touched_.push_back(&lane);
}

void MemcachedCarrier::dispatch() {
  for (std::size_t i = 0; i < touched_.size(); ++i) touched_[i]->kick();
  touched_.clear();
}

std::string MemcachedCarrier::abandon(Errand& errand) {
  return static_cast<Query*>(errand.holder)->abandon(errand) + " within " +
         format_duration(options_.deadline.count());
}

void MemcachedCarrier::read(Turn& turn) {
  turn.writes = false;
  turn.lane->send(turn);
}

// All who still ask are waiting: to the next round, or nobody is left.
void MemcachedCarrier::next_round(Turn& turn) {
  if (turn.waiting.empty()) {
    end_turn(turn);
  } else {
    read(turn);
  }
}

void MemcachedCarrier::on_read(Turn& turn, const MetaReply& reply) {
  if (turn.waiting.empty()) return end_turn(turn);
  if (reply.code == Code::kError) {
    return give_up(turn, turn.lane->name() + ": " + std::string(reply.text));
  }
  if (!take_value(turn, reply)) return end_turn(turn);
  judge(turn);
  const bool has_to_be_kept = options_.virtual_time || state_.lifetime_ns() > 0;
  turn.removes = state_.is_gone() || !has_to_be_kept;
  // What was denied changes nothing, and what is not there need not be removed.
  if (!state_.changed() || (turn.removes && !turn.token)) {
    turn.losses = 0;
    finish(turn.judged);
    return next_round(turn);
  }
  write(turn);
}

// False where the value is not to be understood, and nobody asks to have it removed.
bool MemcachedCarrier::take_value(Turn& turn, const MetaReply& reply) {
  turn.token.reset();
  state_.clear();
  if (reply.code == Code::kMiss) return true;
  turn.token = reply.token;
  if (state_.read(reply.text, *turn.waiting.first()->requests[0].limit)) return true;
  while (!turn.waiting.empty()) {
    Errand& errand = *turn.waiting.first();
    if (errand.requests[0].operation == Operation::kReset) return true;
    ErrandList::take_out(errand);
    courier_->fail(errand, turn.lane->name() + ": the value of '" + turn.key +
                               "' is damaged, or none that this store has written");
  }
  return false;
}

void MemcachedCarrier::judge(Turn& turn) {
  const Instant now = wall_now();
  for (std::size_t i = 0; i < kMaxJudged && !turn.waiting.empty(); ++i) {
    Errand& errand = turn.waiting.pop_front();
    *errand.decision =
        state_.judge(errand.requests[0], errand.now == kStoreTime ? now : errand.now);
    turn.judged.push_back(errand);
  }
}

void MemcachedCarrier::write(Turn& turn) {
  turn.value.clear();
  if (!turn.removes) {
    turn.expiry_s = expiry_of(state_.lifetime_ns());
    state_.write(turn.value);
  }
  turn.writes = true;
  turn.lane->send_now(turn);
}

void MemcachedCarrier::on_written(Turn& turn, const MetaReply& reply) {
  switch (reply.code) {
    case Code::kDone:
      turn.losses = 0;
      if (!turn.token && !turn.removes) remember(*turn.lane, turn.key);
      finish(turn.judged);
      break;
    case Code::kError:
      fail(turn.judged, turn.lane->name() + ": " + std::string(reply.text));
      break;
    default:
      return lose(turn);
  }
  next_round(turn);
}

void MemcachedCarrier::lose(Turn& turn) {
  take_back(turn);
  if (++turn.losses % kLossesBeforeRest != 0) return next_round(turn);
  std::uniform_int_distribution<std::int64_t> rest_us(0, kMostRest.count());
  courier_->loop().run_after(std::chrono::microseconds(rest_us(random_)),
                             [this, &turn] { wake(turn); });
}

void MemcachedCarrier::wake(Turn& turn) {
  if (const auto fault = turn.lane->fault()) return give_up(turn, *fault);
  Lane& lane = *turn.lane;
  next_round(turn);
  lane.kick();
}

void MemcachedCarrier::on_unknown(Turn& turn, std::string_view why) {
  if (!turn.token && !turn.removes) remember(*turn.lane, turn.key);
  fail(turn.judged, why);
  next_round(turn);
}

// A token that came by one connection means nothing on another: the value has to be read again.
void MemcachedCarrier::on_unsent(Turn& turn, std::string_view why) {
  take_back(turn);
  if (turn.lane->is_broken()) return give_up(turn, why);
  next_round(turn);
}

void MemcachedCarrier::give_up(Turn& turn, std::string_view why) {
  fail(turn.waiting, why);
  end_turn(turn);
}

// Those that were judged are to be judged again, before those who came later.
void MemcachedCarrier::take_back(Turn& turn) {
  ErrandList later;
  while (!turn.waiting.empty()) later.push_back(turn.waiting.pop_front());
  while (!turn.judged.empty()) turn.waiting.push_back(turn.judged.pop_front());
  while (!later.empty()) turn.waiting.push_back(later.pop_front());
}

void MemcachedCarrier::finish(ErrandList& errands) {
  while (!errands.empty()) courier_->done(errands.pop_front());
}

void MemcachedCarrier::fail(ErrandList& errands, std::string_view why) {
  while (!errands.empty()) courier_->fail(errands.pop_front(), why);
}

std::int64_t MemcachedCarrier::expiry_of(std::int64_t lifetime_ns) const {
  const std::int64_t least_ns = options_.virtual_time ? kDayNs : 0;
  return expiry_s(std::max(lifetime_ns, least_ns), wall_now());
}

void MemcachedCarrier::count(Errand& errand, const SubWindows& windows, Lane& lane) {
  if (idle_counts_.empty()) idle_counts_.emplace_back(*this);
  counts_.splice(counts_.end(), idle_counts_, idle_counts_.begin());
  Count& count = counts_.back();
  count.self = std::prev(counts_.end());
  const Instant now = errand.now == kStoreTime ? wall_now() : errand.now;
  count.ask({.errand = errand,
             .windows = windows,
             .now = now,
             .expiry_s = expiry_of(windows.lifetime_ns(now))},
            lane);
  touch(lane);
}

void MemcachedCarrier::on_decided(Errand& errand) {
  courier_->done(errand);
}

void MemcachedCarrier::on_failed(Errand& errand, std::string_view why) {
  courier_->fail(errand, why);
}

void MemcachedCarrier::on_made(Lane& lane, const std::string& counter) {
  remember(lane, counter);
}

void MemcachedCarrier::on_counted(Count& count) {
  if (idle_counts_.size() < kMaxIdle) {
    idle_counts_.splice(idle_counts_.begin(), counts_, count.self);
  } else {
    counts_.erase(count.self);
  }
}

// Only a replay tidies up after itself.
void MemcachedCarrier::remember(Lane& lane, const std::string& key) {
  if (!options_.virtual_time) return;
  if (written_.size() == kMaxWritten) written_.pop_front();
  written_.emplace_back(&lane, key);
}

void MemcachedCarrier::sweep(std::function<void()> done) {
  swept_ = std::move(done);
  sweep_on();
}

void MemcachedCarrier::sweep_on() {
  while (!written_.empty() && turns_.size() < kMaxSwept) {
    const auto& [lane, key] = written_.front();
    if (!lane->fault() && !turns_.contains(key)) {
      Turn& turn = begin_turn(*lane, key);
      turn.removes = true;
      turn.token.reset();
      turn.writes = true;
      lane->send(turn);
    }
    written_.pop_front();
  }
  dispatch();
  if (turns_.empty()) std::exchange(swept_, nullptr)();
}

}  // namespace sluice::memcached
