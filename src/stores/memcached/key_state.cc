#include "stores/memcached/key_state.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <span>
#include <utility>

#include "core/block.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::memcached {
namespace {

constexpr char kMark = 1;

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

std::uint32_t checksum(std::string_view text) {
  return static_cast<std::uint32_t>(XXH3_64bits(text.data(), text.size()));
}

}  // namespace

void PartState::clear() {
  image_.numbers = {};
  image_.entries.clear();
  image_.permits.clear();
  first_ = 0;
  base_ = 0;
}

bool PartState::is_fresh() const {
  return image_.numbers == decltype(image_.numbers){} && image_.entries.size() == first_ &&
         image_.permits.empty();
}

// A state of integers is its own change.
template <class State>
State PartState::load() const {
  return state_of_numbers<State>(image_);
}

template <class State>
void PartState::store(const State& state) {
  std::memcpy(image_.numbers.data(), &state, sizeof state);
}

template <>
Ring PartState::load<Ring>() const {
  const auto capacity = static_cast<std::uint32_t>(image_.entries.size());
  return {.slots = image_.entries.data(),
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
  image_.entries.resize(first_ + change.count);
  image_.entries.back() = change.newest;
}

template <>
PermitList PartState::load<PermitList>() const {
  return image_.permits;
}

template <>
void PartState::store(const PermitChange& change) {
  std::vector<PermitEntry>& permits = image_.permits;
  const auto size = static_cast<std::uint32_t>(permits.size());
  permits.resize(std::max(size, change.size_after(size)));
  permits.resize(commit_permits(permits, size, change));
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

bool PartState::read(const AnyPart& part, ByteReader& reader) {
  return std::visit(
      [&]<class P>(const P&) { return read_part<typename P::Algorithm>(reader, image_); }, part);
}

void PartState::write(const AnyPart& part, ByteWriter& writer) const {
  std::visit(
      [&]<class P>(const P&) {
        using A = typename P::Algorithm;
        write_part<A>(load<typename A::State>(), writer);
      },
      part);
}

void KeyState::clear() {
  for (PartState& state : std::span(states_).first(std::exchange(used_, 0))) state.clear();
  blocked_until_ = 0;
  changed_ = false;
  lifetime_ns_ = 0;
}

bool KeyState::is_gone() const {
  return blocked_until_ == 0 && std::ranges::all_of(states_, &PartState::is_fresh);
}

bool KeyState::read(std::string_view value, const MemcachedSpace& space) {
  clear();
  const std::size_t hashed = value.size() - std::min(value.size(), sizeof(checksum({})));
  if (ByteReader(value.substr(hashed)).take<std::uint32_t>() != checksum(value.substr(0, hashed))) {
    return false;
  }
  ByteReader reader(value.substr(0, hashed));
  const bool is_marked = reader.take<char>() == kMark;
  const auto kind = reader.take<std::uint64_t>();
  const auto until = reader.take<Instant>();
  if (!is_marked || reader.failed() || until < 0 || until > kLastEnd) return false;
  // Around states from which no limit of the space can go on there is no block either.
  if (kind != space.kind()) return true;
  used_ = space.parts().size();
  bool valid = true;
  for (std::size_t i = 0; i < space.parts().size() && valid; ++i) {
    valid = states_[i].read(space.parts()[i], reader);
  }
  if (!valid || reader.failed() || !reader.empty()) {
    clear();
    return false;
  }
  blocked_until_ = until;
  return true;
}

void KeyState::write(const MemcachedSpace& space, std::string& output) const {
  const std::size_t begin = output.size();
  ByteWriter writer(output);
  writer.put(kMark);
  writer.put(space.kind());
  writer.put(blocked_until_);
  for (std::size_t i = 0; i < space.parts().size(); ++i) {
    states_[i].write(space.parts()[i], writer);
  }
  writer.put(checksum(std::string_view(output).substr(begin)));
}

// See judge_parts().
auto KeyState::judge_of(const LimitDefinition& limit) const {
  return [this, &limit](std::size_t part, Operation operation, const Call& call) {
    return states_[part].judge(limit.parts[part], operation, call);
  };
}

Decision KeyState::decide(const Request& request, Instant now) {
  assert(now >= 0 && now < kEndOfTime);
  const LimitDefinition& limit = *request.limit;
  if (request.operation == Operation::kReset) {
    clear();
    changed_ = true;
    return combined(judge(request, Operation::kTake, {.now = now, .cost = 0}));
  }
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
                       (request.operation != Operation::kRefund || !is_gone());
  if (!commits) return decision;
  used_ = limit.parts.size();
  for (std::size_t i = 0; i < limit.parts.size(); ++i) {
    states_[i].commit(limit.parts[i], request.operation,
                      call_of_part(call, request.uncounted_parts, i));
  }
  committed(limit, decisions, now);
  return decision;
}

Decision KeyState::block(const Request& request, Instant now) {
  blocked_until_ = block_until(blocked_until_, now, request.duration_ns);
  const PartDecisions decisions = judge(request, Operation::kTake, {.now = now, .cost = 0});
  committed(*request.limit, decisions, now);
  return combined(decisions);
}

// The decisions of the parts, which it also stores in request.parts.
PartDecisions KeyState::judge(const Request& request, Operation operation, const Call& call) const {
  const LimitDefinition& limit = *request.limit;
  PartDecisions decisions(limit.parts.size());
  judge_parts(std::span(decisions), operation, call,
              {.blocked_until = blocked_until_, .uncounted_parts = request.uncounted_parts},
              judge_of(limit));
  if (!request.parts.empty()) std::ranges::copy(decisions, request.parts.begin());
  return decisions;
}

// `decisions`: of the parts, with what was committed.
void KeyState::committed(const LimitDefinition& limit, const PartDecisions& decisions,
                         Instant now) {
  if (blocked_until_ <= now) blocked_until_ = 0;
  changed_ = true;
  lifetime_ns_ = 0;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const std::int64_t reset_ns = decisions[i].reset_after.count();
    const std::int64_t lifetime_ns = reset_ns > 0 ? reset_ns + spare_ns(limit.parts[i]) : 0;
    lifetime_ns_ = std::max(lifetime_ns_, lifetime_ns);
  }
}

}  // namespace sluice::memcached
