#include "stores/memcached/carrier.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "stores/memcached/expiry.h"
#include "stores/memcached/memcached_space.h"

namespace sluice::memcached {
namespace {

// How many turns are kept to be used again, and with how much room.
constexpr std::size_t kMaxIdle = 1'024;
constexpr std::size_t kMaxIdleBytes = 4'096;
constexpr std::size_t kMaxSwept = 512;  // At a time.

std::vector<std::string> names(const std::vector<Endpoint>& servers) {
  std::vector<std::string> result;
  result.reserve(servers.size());
  for (const auto& server : servers) result.push_back(server.text());
  return result;
}

}  // namespace

MemcachedCarrier::MemcachedCarrier(const MemcachedOptions& options)
    : options_(options), ring_(names(options.servers)), random_(std::random_device{}()) {
  for (const auto& server : options.servers) {
    for (std::size_t i = 0; i < options.connections; ++i) {
      const LaneSettings settings{.endpoint = server, .deadline = options.deadline};
      lanes_.push_back(std::make_unique<Lane>(settings));
    }
  }
}

MemcachedCarrier::~MemcachedCarrier() = default;

void MemcachedCarrier::open(Courier& courier) {
  courier_ = &courier;
  rest_.emplace(courier.loop(), [this] { wake_all(); });
}

Lane& MemcachedCarrier::lane_of(std::string_view key) {
  const std::size_t connection =
      options_.connections == 1 ? 0 : std::hash<std::string_view>()(key) % options_.connections;
  return *lanes_[ring_.server_of(key) * options_.connections + connection];
}

void MemcachedCarrier::carry(Errand& errand) {
  const Request& request = errand.requests[0];
  static_cast<const MemcachedSpace&>(*request.space).name_of(request.key, name_);
  const Name name(name_);
  last_writes_.prefetch_place(name.hash);
  const auto known = turns_.find(name);
  Lane& lane = known != turns_.end() ? *known->second->lane : lane_of(name_);
  const std::string_view fault = lane.fault(courier_->round_began());
  if (!fault.empty()) return courier_->fail(errand, fault);
  const bool begins = known == turns_.end();
  if (begins && under_way() >= kMaxUnderWay) {
    return courier_->fail(errand, lane.name() + ": too many keys wait for their servers");
  }
  Turn& turn = begins ? begin_turn(lane, name) : *known->second;
  if (begins) read(turn);
  errand.holder = static_cast<Query*>(&turn);
  turn.waiting.push_back(errand);
}

Turn& MemcachedCarrier::begin_turn(Lane& lane, const Name& name) {
  if (idle_turns_.empty()) {
    const Name unnamed("");
    turns_.emplace(unnamed, std::make_unique<Turn>(*this));
    idle_turns_.push_back(turns_.extract(unnamed));
  }
  Turn& turn = *idle_turns_.back().mapped();
  turn.key = name.text;
  turn.key_hash = name.hash;
  turn.lane = &lane;
  turn.guesses = false;
  turn.losses = 0;
  touch(lane);
  idle_turns_.back().key() = name;
  idle_turns_.back().key().text = turn.key;
  turns_.insert(std::move(idle_turns_.back()));
  idle_turns_.pop_back();
  return turn;
}

void MemcachedCarrier::end_turn(Turn& turn) {
  auto node = turns_.extract(Name(turn.key, turn.key_hash));
  const bool keep = idle_turns_.size() < kMaxIdle && turn.value.capacity() <= kMaxIdleBytes;
  if (keep) idle_turns_.push_back(std::move(node));
  if (swept_) sweep_on();
}

void MemcachedCarrier::touch(Lane& lane) {
  if (std::ranges::find(touched_, &lane) == touched_.end()) touched_.push_back(&lane);
}

void MemcachedCarrier::dispatch() {
  for (std::size_t i = 0; i < touched_.size(); ++i) touched_[i]->kick();
  touched_.clear();
}

std::string_view MemcachedCarrier::abandon(Errand& errand) {
  return static_cast<Query*>(errand.holder)->abandon(errand);
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

LastWrites::Key MemcachedCarrier::key_of(const Turn& turn) const {
  return {turn.key_hash, turn.lane->connection()};
}

void MemcachedCarrier::on_foreseen(const Turn& turn) {
  last_writes_.prefetch_value(turn.key_hash);
}

// Where what this process has written last is to be changed, it is written without being read: the
// server takes it only over that. What changes nothing is no answer until the value has been read,
// since nothing else would tell that somebody has written meanwhile.
void MemcachedCarrier::on_sending(Turn& turn) {
  if (turn.waiting.empty()) return;
  const Instant now = wall_now();
  const auto last = last_writes_.find(key_of(turn), now);
  if (!last || !state_.read_own(last->value, *turn.waiting.first()->requests[0].limit)) return;
  turn.token = last->token;
  judge(turn, now);
  turn.guesses = prepare_write(turn, now);
  if (!turn.guesses) take_back(turn);
}

void MemcachedCarrier::on_read(Turn& turn, const MetaReply& reply) {
  if (reply.code == Code::kValue) last_writes_.found(key_of(turn), reply.token);
  if (reply.code == Code::kMiss) last_writes_.forget(key_of(turn));
  if (turn.waiting.empty()) return end_turn(turn);
  if (reply.code == Code::kError) {
    return give_up(turn, turn.lane->name() + ": " + std::string(reply.text));
  }
  if (reply.code == Code::kValue && reply.token == 0) return give_up(turn, turn.lane->no_tokens());
  if (!take_value(turn, reply)) return end_turn(turn);
  const Instant now = wall_now();
  judge(turn, now);
  if (prepare_write(turn, now)) return turn.lane->send_now(turn);
  turn.losses = 0;
  finish(turn.judged);
  next_round(turn);
}

// False where the value is not to be understood, and nobody asks to have it removed.
bool MemcachedCarrier::take_value(Turn& turn, const MetaReply& reply) {
  turn.token.reset();
  state_.clear();
  if (reply.code == Code::kMiss) return true;
  turn.token = reply.token;
  if (state_.read(reply.text, *turn.waiting.first()->requests[0].limit)) return true;
  const std::string why = turn.lane->name() + ": the value of '" + turn.key +
                          "' is damaged, or none that this store has written";
  while (!turn.waiting.empty()) {
    if (turn.waiting.first()->requests[0].operation == Operation::kReset) return true;
    courier_->fail(turn.waiting.pop_front(), why);
  }
  return false;
}

void MemcachedCarrier::judge(Turn& turn, Instant now) {
  for (std::size_t i = 0; i < kMaxJudged && !turn.waiting.empty(); ++i) {
    Errand& errand = turn.waiting.pop_front();
    *errand.decision =
        state_.judge(errand.requests[0], errand.now == kStoreTime ? now : errand.now);
    turn.judged.push_back(errand);
  }
}

// False where there is nothing to write: what was denied changes nothing, and what is not there
// need not be removed.
bool MemcachedCarrier::prepare_write(Turn& turn, Instant now) {
  const bool has_to_be_kept = options_.virtual_time || state_.lifetime_ns() > 0;
  turn.removes = state_.is_gone() || !has_to_be_kept;
  if (!state_.changed() || (turn.removes && !turn.token)) return false;
  turn.value.clear();
  if (!turn.removes) {
    const std::int64_t kept = kept_ns(state_.lifetime_ns());
    turn.expiry_s = expiry_s(kept, now);
    turn.kept_until = kept_until(kept, now);
    state_.write(turn.value);
  }
  turn.writes = true;
  turn.guesses = false;
  return true;
}

void MemcachedCarrier::on_written(Turn& turn, const MetaReply& reply) {
  const LastWrites::Key key = key_of(turn);
  switch (reply.code) {
    case Code::kDone:
      if (turn.removes || reply.token == 0) {
        last_writes_.forget(key);
      } else {
        last_writes_.remember(
            key, {.value = turn.value, .token = reply.token, .until = turn.kept_until});
      }
      turn.losses = 0;
      if (!turn.token && !turn.removes) remember(*turn.lane, turn.key);
      finish(turn.judged);
      break;
    case Code::kError:
      last_writes_.forget(key);
      fail(turn.judged, turn.lane->name() + ": " + std::string(reply.text));
      break;
    case Code::kExists:
      last_writes_.found(key, 0);
      return lose(turn);
    default:
      last_writes_.forget(key);
      return lose(turn);
  }
  next_round(turn);
}

// What was only guessed at is read now, and no race was lost.
void MemcachedCarrier::lose(Turn& turn) {
  take_back(turn);
  if (turn.guesses || ++turn.losses % kLossesBeforeRest != 0) return next_round(turn);
  resting_.push_back(turn);
  if (rest_->is_set()) return;
  std::uniform_int_distribution<std::int64_t> rest_us(0, kMostRest.count());
  rest_->set(std::chrono::microseconds(rest_us(random_)));
}

void MemcachedCarrier::wake_all() {
  QueryQueue rested = std::exchange(resting_, {});
  while (!rested.empty()) wake(static_cast<Turn&>(rested.pop_front()));
}

void MemcachedCarrier::wake(Turn& turn) {
  const std::string_view fault = turn.lane->fault(Courier::Clock::now());
  if (!fault.empty()) return give_up(turn, fault);
  Lane& lane = *turn.lane;
  next_round(turn);
  lane.kick();
}

void MemcachedCarrier::on_unknown(Turn& turn, std::string_view why) {
  if (!turn.token && !turn.removes) remember(*turn.lane, turn.key);
  last_writes_.forget(key_of(turn));
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

// For how long a state is to be kept by a server, whose time is real.
std::int64_t MemcachedCarrier::kept_ns(std::int64_t lifetime_ns) const {
  return std::max(lifetime_ns, options_.virtual_time ? kDayNs : 0);
}

// Only a replay tidies up after itself.
void MemcachedCarrier::remember(Lane& lane, const std::string& key) {
  if (!options_.virtual_time) return;
  if (written_.size() == kMaxWritten) written_.pop_front();
  written_.emplace_back(&lane, key);
}

void MemcachedCarrier::begin_removal(Lane& lane, std::string_view key) {
  Turn& turn = begin_turn(lane, Name(key));
  turn.removes = true;
  turn.token.reset();
  turn.writes = true;
  lane.send(turn);
}

void MemcachedCarrier::sweep(std::function<void()> done) {
  swept_ = std::move(done);
  sweep_on();
}

// Goes on at the end of each turn.
void MemcachedCarrier::sweep_on() {
  const auto now = Courier::Clock::now();
  while (!written_.empty() && turns_.size() < kMaxSwept) {
    const auto& [lane, key] = written_.front();
    if (lane->fault(now).empty() && !turns_.contains(Name(key))) begin_removal(*lane, key);
    written_.pop_front();
  }
  dispatch();
  // A lane that is down hands its turns back at once: the last of them has ended the sweep then.
  if (swept_ && turns_.empty()) std::exchange(swept_, nullptr)();
}

}  // namespace sluice::memcached
