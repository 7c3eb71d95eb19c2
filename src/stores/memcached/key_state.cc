#include "stores/memcached/key_state.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <functional>
#include <iterator>
#include <type_traits>

#include "core/block.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::memcached {
namespace {

constexpr std::size_t kIdBytes = 8;

constexpr char kVersion = 1;
constexpr char kBlockedVersion = 2;
constexpr std::size_t kChecksumBytes = 4;

// For how much longer than until it is fresh a state may matter: under a limit that keeps it and is
// strict, units count for one sub-window more.
std::int64_t spare_ns(const AnyPart& part) {
  return std::visit(
      []<class P>(const P& p) -> std::int64_t {
        if constexpr (requires { p.params.strict; }) {
          return p.params.strict ? 0 : p.params.precision_ns();
        } else {
          return 0;
        }
      },
      part);
}

std::uint64_t checksum(std::string_view text) {
  return XXH3_64bits(text.data(), text.size()) & ~std::uint32_t{0};
}

}  // namespace

void PartState::clear() {
  numbers_ = {};
  slots_.clear();
  first_ = 0;
  base_ = 0;
  permits_.clear();
}

bool PartState::is_fresh() const {
  return numbers_ == decltype(numbers_){} && slots_.size() == first_ && permits_.empty();
}

// A state that is its own change is a few 64-bit integers, none of which is ever negative.
template <class State>
State PartState::load() const {
  static_assert(std::is_trivially_copyable_v<State> &&
                std::has_unique_object_representations_v<State> &&
                sizeof(State) % sizeof(std::uint64_t) == 0 && sizeof(State) <= sizeof numbers_);
  State state;
  std::memcpy(static_cast<void*>(&state), numbers_.data(), sizeof state);
  return state;
}

template <class State>
void PartState::store(const State& state) {
  std::memcpy(numbers_.data(), &state, sizeof state);
}

template <class State>
void PartState::read_as(ValueReader& reader) {
  for (std::size_t i = 0; i < sizeof(State) / sizeof numbers_[0]; ++i) {
    numbers_[i] = reader.number(kMaxInt64);
  }
  // The end of its window is computed, which must not overflow.
  if constexpr (requires(State state) { state.start_ns; }) {
    if (load<State>().start_ns >= kEndOfTime) reader.fail();
  }
}

template <class State>
void PartState::write_as(ValueWriter& writer) const {
  for (std::size_t i = 0; i < sizeof(State) / sizeof numbers_[0]; ++i) writer.number(numbers_[i]);
}

template <>
Ring PartState::load<Ring>() const {
  const auto capacity = static_cast<std::uint32_t>(slots_.size());
  return {.slots = slots_.data(),
          .capacity = capacity,
          .head = first_,
          .size = capacity - first_,
          .base = base_};
}

template <>
void PartState::store(const RingChange& change) {
  if (change.count == 0) return clear();
  if (change.first > 0) base_ = load<Ring>().at(change.first - 1).total;
  first_ += change.first;
  slots_.resize(first_ + change.count);
  slots_.back() = change.newest;
}

template <>
void PartState::read_as<Ring>(ValueReader& reader) {
  // An entry has at least two bytes, so that no count makes room for more than there is.
  slots_.resize(reader.number(reader.bytes_left() / 2));
  RingEntry entry;
  for (RingEntry& slot : slots_) {
    const std::uint64_t later =
        reader.number(static_cast<std::uint64_t>(kEndOfTime - 1 - entry.stamp_ns));
    const std::uint64_t units = reader.number(static_cast<std::uint64_t>(kMaxCount) - entry.total);
    // Stamps increase and no entry is empty: searches rely on it.
    if (units == 0 || (later == 0 && &slot != slots_.data())) reader.fail();
    if (reader.failed()) break;
    entry.stamp_ns += static_cast<std::int64_t>(later);
    entry.total += units;
    slot = entry;
  }
}

template <>
void PartState::write_as<Ring>(ValueWriter& writer) const {
  const Ring ring = load<Ring>();
  writer.number(ring.size);
  RingEntry before{.stamp_ns = 0, .total = ring.base};
  for (std::uint32_t i = 0; i < ring.size; ++i) {
    const RingEntry& entry = ring.at(i);
    writer.number(static_cast<std::uint64_t>(entry.stamp_ns - before.stamp_ns));
    writer.number(entry.total - before.total);
    before = entry;
  }
}

template <>
PermitList PartState::load<PermitList>() const {
  return permits_;
}

template <>
void PartState::store(const PermitChange& change) {
  const auto size = static_cast<std::uint32_t>(permits_.size());
  permits_.resize(std::max(size, change.size_after(size)));
  permits_.resize(commit_permits(permits_, size, change));
}

template <>
void PartState::read_as<PermitList>(ValueReader& reader) {
  permits_.resize(reader.number(reader.bytes_left() / (1 + kIdBytes)));
  Instant before = 0;
  for (PermitEntry& permit : permits_) {
    permit.expires_ns = before + static_cast<std::int64_t>(
                                     reader.number(static_cast<std::uint64_t>(kLastEnd - before)));
    permit.id = reader.bytes(kIdBytes);
    if (permit.id == 0) reader.fail();
    if (reader.failed()) break;
    before = permit.expires_ns;
  }
}

template <>
void PartState::write_as<PermitList>(ValueWriter& writer) const {
  writer.number(permits_.size());
  Instant before = 0;
  for (const PermitEntry& permit : permits_) {
    writer.number(static_cast<std::uint64_t>(permit.expires_ns - before));
    writer.bytes(permit.id, kIdBytes);
    before = permit.expires_ns;
  }
}

Decision PartState::judge(const AnyPart& part, Operation operation, const Call& call) const {
  return std::visit(
      [&]<class P>(const P& p) {
        using A = typename P::Algorithm;
        return apply<A>(operation, p.params, load<typename A::State>(), call).decision;
      },
      part);
}

void PartState::commit(const AnyPart& part, Operation operation, const Call& call) {
  std::visit(
      [&]<class P>(const P& p) {
        using A = typename P::Algorithm;
        const auto step = apply<A>(operation, p.params, load<typename A::State>(), call);
        assert(step.decision.allowed);
        store(step.next);
      },
      part);
}

void PartState::read(const AnyPart& part, ValueReader& reader) {
  clear();
  std::visit([&]<class P>(const P&) { read_as<typename P::Algorithm::State>(reader); }, part);
}

void PartState::write(const AnyPart& part, ValueWriter& writer) const {
  std::visit([&]<class P>(const P&) { write_as<typename P::Algorithm::State>(writer); }, part);
}

void KeyState::clear() {
  made_by_ = nullptr;
  blocked_until_ = 0;
  changed_ = false;
  lifetime_ns_ = 0;
}

bool KeyState::is_gone() const {
  const auto end = states_.begin() + (made_by_ == nullptr ? 0 : std::ssize(made_by_->parts));
  return blocked_until_ == 0 &&
         std::all_of(states_.begin(), end, std::mem_fn(&PartState::is_fresh));
}

bool KeyState::read(std::string_view value, const LimitDefinition& asked) {
  clear();
  if (value.size() <= kChecksumBytes) return false;
  const std::string_view hashed = value.substr(0, value.size() - kChecksumBytes);
  ValueReader last(value.substr(hashed.size()));
  if (last.bytes(kChecksumBytes) != checksum(hashed)) return false;
  const bool blocked = hashed[0] == kBlockedVersion;
  if (hashed[0] != kVersion && !blocked) return false;

  ValueReader reader(hashed.substr(1));
  Instant until = 0;
  if (blocked) {
    until = static_cast<Instant>(reader.number(kLastEnd));
    if (until == 0) return false;
  }
  const std::string_view expression = reader.text(reader.number(reader.bytes_left()));
  if (reader.failed() || expression.empty()) return false;
  if (!read_states(expression, reader, asked)) return false;
  // Around states from which no limit here can go on there is no block either.
  if (made_by_ != nullptr) blocked_until_ = until;
  return true;
}

// False if they cannot be read; the key is then fresh.
bool KeyState::read_states(std::string_view expression, ValueReader& reader,
                           const LimitDefinition& asked) {
  const LimitDefinition* made_by = &asked;
  if (expression != asked.expression) {
    try {
      parsed_.parts = parse_parts(expression);
    } catch (const InvalidLimit&) {
      return true;  // A limit of a later version, from which no limit here can go on.
    }
    parsed_.expression = expression;
    made_by = &parsed_;
  }
  for (std::size_t i = 0; i < made_by->parts.size(); ++i)
    states_[i].read(made_by->parts[i], reader);
  if (reader.failed() || reader.bytes_left() != 0) return false;
  made_by_ = made_by;
  return true;
}

void KeyState::write(std::string& output) const {
  assert(made_by_ != nullptr);
  const std::size_t begin = output.size();
  ValueWriter writer(output);
  writer.bytes(static_cast<std::uint64_t>(blocked_until_ > 0 ? kBlockedVersion : kVersion), 1);
  if (blocked_until_ > 0) writer.number(static_cast<std::uint64_t>(blocked_until_));
  writer.number(made_by_->expression.size());
  writer.text(made_by_->expression);
  for (std::size_t i = 0; i < made_by_->parts.size(); ++i) {
    states_[i].write(made_by_->parts[i], writer);
  }
  writer.bytes(checksum(std::string_view(output).substr(begin)), kChecksumBytes);
}

// See judge_parts().
auto KeyState::judge_of(const LimitDefinition& limit) const {
  return [this, &limit](std::size_t part, Operation operation, const Call& call) {
    static const PartState fresh;
    const PartState& state = readable_ ? states_[part] : fresh;
    return state.judge(limit.parts[part], operation, call);
  };
}

Decision KeyState::decide(const Request& request, Instant now) {
  assert(now >= 0 && now < kEndOfTime);
  const LimitDefinition& limit = *request.limit;
  if (request.operation == Operation::kReset) {
    clear();
    changed_ = true;
    readable_ = false;
    return combined(judge(request, Operation::kTake, {.now = now, .cost = 0}));
  }
  readable_ = made_by_ != nullptr && (made_by_->expression == limit.expression ||
                                      keeps_state(made_by_->parts, limit.parts));
  if (request.operation == Operation::kBlock) return block(request, now);
  Call call = call_of(request, now);
  if (request.operation == Operation::kTakeUpTo && request.cost > 0) {
    const std::int64_t left = units_left(limit.parts.size(), call, judge_of(limit));
    call.cost = std::max<std::int64_t>(1, left);
  }
  const PartDecisions decisions = judge(request, request.operation, call);
  Decision decision = combined(decisions);
  if (request.operation == Operation::kTakeUpTo && decision.allowed) decision.taken = call.cost;
  // A refund of a key that was never seen changes nothing.
  const bool commits = decision.allowed && request.cost > 0 &&
                       (readable_ || request.operation != Operation::kRefund);
  if (!commits) return decision;
  make_readable(limit);
  for (std::size_t i = 0; i < limit.parts.size(); ++i) {
    states_[i].commit(limit.parts[i], request.operation,
                      call_of_part(call, request.uncounted_parts, i));
  }
  committed(decisions, now);
  return decision;
}

Decision KeyState::block(const Request& request, Instant now) {
  make_readable(*request.limit);
  blocked_until_ = block_until(blocked_until_, now, request.duration_ns);
  const PartDecisions decisions = judge(request, Operation::kTake, {.now = now, .cost = 0});
  committed(decisions, now);
  return combined(decisions);
}

// The decisions of the parts, which it also stores in request.parts.
PartDecisions KeyState::judge(const Request& request, Operation operation, const Call& call) const {
  const LimitDefinition& limit = *request.limit;
  PartDecisions decisions(limit.parts.size());
  judge_parts(
      std::span(decisions), operation, call,
      {.blocked_until = readable_ ? blocked_until_ : 0, .uncounted_parts = request.uncounted_parts},
      judge_of(limit));
  if (!request.parts.empty()) std::ranges::copy(decisions, request.parts.begin());
  return decisions;
}

// Forgets states from which this limit cannot go on, and a block around them: from now on they are
// its own.
void KeyState::make_readable(const LimitDefinition& limit) {
  if (!readable_) {
    for (std::size_t i = 0; i < limit.parts.size(); ++i) states_[i].clear();
    blocked_until_ = 0;
  }
  made_by_ = &limit;
  readable_ = true;
}

// `decisions`: of the parts, with what was committed.
void KeyState::committed(const PartDecisions& decisions, Instant now) {
  if (blocked_until_ <= now) blocked_until_ = 0;
  changed_ = true;
  lifetime_ns_ = 0;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const std::int64_t reset_ns = decisions[i].reset_after.count();
    const std::int64_t lifetime_ns = reset_ns > 0 ? reset_ns + spare_ns(made_by_->parts[i]) : 0;
    lifetime_ns_ = std::max(lifetime_ns_, lifetime_ns);
  }
}

}  // namespace sluice::memcached
