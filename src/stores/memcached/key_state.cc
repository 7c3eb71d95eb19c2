#include "stores/memcached/key_state.h"

#include <algorithm>

#include "core/block.h"
#include "core/together.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::memcached {
namespace {

constexpr char kVersion = 1;
constexpr char kBlockedVersion = 2;
constexpr std::size_t kChecksumBytes = 4;

std::uint64_t checksum(std::string_view text) {
  return XXH3_64bits(text.data(), text.size()) & ~std::uint32_t{0};
}

}  // namespace

void KeyState::clear() {
  drop_states();
  blocked_until_ = 0;
  changed_ = false;
  gone_ = true;
  lifetime_ns_ = 0;
}

void KeyState::drop_states() {
  parts_ = nullptr;
  expression_ = {};
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
    until = static_cast<Instant>(reader.number(kLastBlock));
    if (until == 0) return false;
  }
  const std::string_view expression = reader.text(reader.number(reader.bytes_left()));
  if (reader.failed() || (expression.empty() && !blocked)) return false;
  if (!read_states(expression, reader, asked)) return false;
  // Around what nobody here can go on from there is no block either.
  if (parts_ != nullptr || expression.empty()) blocked_until_ = until;
  gone_ = blocked_until_ == 0 && parts_ == nullptr;
  return true;
}

// False where they are not to be understood; there are none then.
bool KeyState::read_states(std::string_view expression, ValueReader& reader,
                           const LimitDefinition& asked) {
  if (expression.empty()) return reader.bytes_left() == 0;
  const std::vector<AnyPart>* parts = &asked.parts;
  std::string_view made_by = asked.expression;
  if (expression != asked.expression) {
    try {
      parsed_ = parse_parts(expression);
    } catch (const InvalidLimit&) {
      return true;  // A limit of a later version: nobody here can go on from it.
    }
    parsed_expression_ = expression;
    parts = &parsed_;
    made_by = parsed_expression_;
  }
  for (std::size_t i = 0; i < parts->size(); ++i) states_[i].read((*parts)[i], reader);
  if (reader.failed() || reader.bytes_left() != 0) return false;
  parts_ = parts;
  expression_ = made_by;
  return true;
}

void KeyState::write(std::string& output) const {
  const std::size_t begin = output.size();
  ValueWriter writer(output);
  writer.bytes(static_cast<std::uint64_t>(blocked_until_ > 0 ? kBlockedVersion : kVersion), 1);
  if (blocked_until_ > 0) writer.number(static_cast<std::uint64_t>(blocked_until_));
  writer.number(expression_.size());
  writer.text(expression_);
  if (parts_ != nullptr) {
    for (std::size_t i = 0; i < parts_->size(); ++i) states_[i].write((*parts_)[i], writer);
  }
  writer.bytes(checksum(std::string_view(output).substr(begin)), kChecksumBytes);
}

bool KeyState::goes_on(const LimitDefinition& limit) const {
  return parts_ != nullptr &&
         (expression_ == limit.expression || keeps_state(*parts_, limit.parts));
}

const PartState& KeyState::state_of(std::size_t index) const {
  static const PartState kFresh;
  return readable_ ? states_[index] : kFresh;
}

// A block goes with states from which this limit cannot go on; around none it stands.
Instant KeyState::standing_until() const {
  return readable_ || parts_ == nullptr ? blocked_until_ : 0;
}

Decision KeyState::judge(const Request& request, Instant now) {
  if (request.operation == Operation::kReset) return reset(request, now);
  readable_ = goes_on(*request.limit);
  if (request.operation == Operation::kBlock) return block(request, now);
  Decision decision = judge_unblocked(request, now);
  const Instant until = standing_until();
  if (now < until) {
    const bool taking = takes(request.operation, request.cost);
    if (taking && decision.allowed) decision = peek(*request.limit, now);
    decision = block_decision(decision, taking, now, until);
  }
  // What is given back to a key that was never seen is nothing.
  const bool seen = readable_ || until > 0;
  const bool commits =
      decision.allowed && request.cost > 0 && (seen || request.operation != Operation::kRefund);
  if (!commits) return decision;
  blocked_until_ = until;
  commit(*request.limit);
  committed(now, decision);
  return decision;
}

Decision KeyState::reset(const Request& request, Instant now) {
  clear();
  changed_ = true;
  readable_ = false;
  return peek(*request.limit, now);
}

Decision KeyState::block(const Request& request, Instant now) {
  blocked_until_ = block_until(standing_until(), now, request.duration_ns);
  // What this limit cannot go on from is forgotten, as by whatever else it commits.
  if (!readable_) drop_states();
  const Decision decision = block_decision(peek(*request.limit, now), false, now, blocked_until_);
  committed(now, decision);
  return decision;
}

Decision KeyState::judge_unblocked(const Request& request, Instant now) {
  const Call call{.now = now,
                  .cost = request.cost,
                  .patience_ns = request.patience_ns,
                  .permit = request.permit};
  if (request.operation == Operation::kTakeUpTo) return take_up_to(*request.limit, call);
  return judge_together(*request.limit, request.operation, call);
}

Decision KeyState::take_up_to(const LimitDefinition& limit, const Call& call) {
  const Decision there = peek(limit, call.now);
  if (call.cost == 0) return there;
  const std::int64_t most = std::min(call.cost, there.remaining);
  Decision decision = judge_together(
      limit, Operation::kTake,
      {.now = call.now, .cost = std::max<std::int64_t>(1, most), .unspent_only = true});
  if (decision.allowed) decision.taken = most;
  return decision;
}

Decision KeyState::peek(const LimitDefinition& limit, Instant now) const {
  Together answer;
  for (std::size_t i = 0; i < limit.parts.size(); ++i) {
    const Call call{.now = now, .cost = 0};
    answer.add(state_of(i).judge(limit.parts[i], Operation::kTake, call).decision);
  }
  return answer.decision();
}

Decision KeyState::judge_together(const LimitDefinition& limit, Operation operation,
                                  const Call& call) {
  const auto& parts = limit.parts;
  bool allowed = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    judged_[i] = state_of(i).judge(parts[i], operation, call);
    allowed = allowed && judged_[i].decision.allowed;
  }
  Together answer;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // Where one denies, nothing is charged: what the others would admit stands as a peek sees it.
    const bool stands = allowed || !judged_[i].decision.allowed;
    const Call peeked{.now = call.now, .cost = 0};
    answer.add(stands ? judged_[i].decision
                      : state_of(i).judge(parts[i], Operation::kTake, peeked).decision);
  }
  return answer.decision();
}

void KeyState::commit(const LimitDefinition& limit) {
  for (std::size_t i = 0; i < limit.parts.size(); ++i) {
    if (!readable_) states_[i].clear();
    states_[i].commit(limit.parts[i], judged_[i].change);
  }
  parts_ = &limit.parts;
  expression_ = limit.expression;
}

// The decision tells how long what was committed lasts.
void KeyState::committed(Instant now, const Decision& decision) {
  if (blocked_until_ <= now) blocked_until_ = 0;
  changed_ = true;
  lifetime_ns_ = decision.reset_after.count();
  const std::size_t size = parts_ == nullptr ? 0 : parts_->size();
  gone_ = blocked_until_ == 0 &&
          std::all_of(states_.begin(), states_.begin() + static_cast<std::ptrdiff_t>(size),
                      [](const PartState& state) { return state.is_fresh(); });
}

}  // namespace sluice::memcached
