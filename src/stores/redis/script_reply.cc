#include <algorithm>
#include <charconv>

#include "core/together.h"
#include "stores/redis/part_codec.h"
#include "stores/redis/script_call.h"

namespace sluice::redis {

/// What is left of the reply.
struct ScriptCall::Cursor {
  std::string_view answers;  // of all units
  std::string_view faults;   // bulk strings

  /// False where there are not so many.
  bool take(std::size_t count, std::string_view& bytes) {
    if (answers.size() < count) return false;
    bytes = answers.substr(0, count);
    answers.remove_prefix(count);
    return true;
  }
};

namespace {

// The bits of an answer's first byte.
constexpr unsigned char kAdmitted = 1;
constexpr unsigned char kKnown = 2;
constexpr unsigned char kFailed = 4;

constexpr std::string_view kMalformed = "the reply to the script cannot be read";
constexpr std::string_view kDamaged = "the value of the key is damaged";
constexpr std::string_view kDiffers =
    "the script's verdict is not the one that follows from the state it was given";

// Reads "<type><length>\r\n" off the front.
bool read_length(std::string_view& reply, char type, std::size_t& length) {
  if (reply.empty() || reply.front() != type) return false;
  const auto read = std::from_chars(reply.data() + 1, reply.data() + reply.size(), length);
  if (read.ec != std::errc{}) return false;
  reply.remove_prefix(static_cast<std::size_t>(read.ptr - reply.data()));
  if (!reply.starts_with("\r\n")) return false;
  reply.remove_prefix(2);
  return true;
}

bool read_bulk(std::string_view& reply, std::string_view& bulk) {
  std::size_t length = 0;
  if (!read_length(reply, '$', length) || reply.size() < length ||
      !reply.substr(length).starts_with("\r\n")) {
    return false;
  }
  bulk = reply.substr(0, length);
  reply.remove_prefix(length + 2);
  return true;
}

// What was answered to one request, and how far its parts have been read.
struct Answer {
  const Request& request;
  Instant now = 0;
  const char* state = nullptr;  // of the next part in the head; null where the key is fresh
  const char* ring = nullptr;   // of the next ring
  /// Nothing is charged, so what would be admitted stands as a peek sees it.
  bool retract = false;
};

template <class A>
Decision decide(const typename A::Params& params, const typename A::State& state,
                const Answer& answer) {
  const Request& request = answer.request;
  Call call{answer.now, request.cost, request.patience_ns};
  if (request.operation == Operation::kRefund) return A::refund(params, state, call).decision;
  if (request.operation == Operation::kReset) call.cost = 0;
  const Decision decision = A::take(params, state, call).decision;
  if (!answer.retract || !decision.allowed) return decision;
  call.cost = 0;
  return A::take(params, state, call).decision;
}

// False where the state is none.
template <class A>
bool judge_part(const typename A::Params& params, Answer& answer, Together& together) {
  typename A::State state;
  const bool known = answer.state != nullptr && answer.request.operation != Operation::kReset;
  if constexpr (kIsRing<A>) {
    RingAnswer ring;
    if (known) {
      if (!ring.read(answer.ring)) return false;
      answer.ring += RingAnswer::kBytes;
      state = ring.ring({answer.request.operation, answer.request.cost}, params.limit);
    }
    together.add(decide<A>(params, state, answer));
  } else {
    if (known && !PartCodec<A>::read(answer.state, state)) return false;
    together.add(decide<A>(params, state, answer));
  }
  if (known) answer.state += PartCodec<A>::kStateBytes;
  return true;
}

bool judge_parts(Answer& answer, Together& together) {
  for (const AnyPart& part : answer.request.limit->parts) {
    const bool read = std::visit(
        [&]<class P>(const P& p) {
          return judge_part<typename P::Algorithm>(p.params, answer, together);
        },
        part);
    if (!read) return false;
  }
  return true;
}

}  // namespace

void ScriptCall::read(std::string_view reply) {
  std::size_t length = 0;
  std::string_view now;
  Cursor cursor;
  const bool readable = read_length(reply, '*', length) && length >= 1 &&
                        read_bulk(reply, cursor.answers) && cursor.take(sizeof now_, now) &&
                        sluice::redis::read_instant(now.data(), now_);
  cursor.faults = reply;
  if (!readable) cursor.answers = {};
  for (Unit& unit : units_) {
    if (unit.written && !read_unit(unit, cursor)) cursor.answers = {};
  }
}

// False where the reply makes no sense any more.
bool ScriptCall::read_unit(Unit& unit, Cursor& cursor) {
  const std::string_view from = cursor.answers;
  if (!skip(unit, cursor)) {
    fail(unit, kMalformed);
    return false;
  }
  const auto flags = static_cast<unsigned char>(from.front());
  if ((flags & kFailed) != 0) {
    std::string_view why;
    const bool readable = read_bulk(cursor.faults, why);
    // Servers before 7.0 say where in the script it was, then give the line as it stands on the
    // wire.
    if (why.starts_with("@user_script")) {
      const std::size_t line = why.find(": -");
      if (line != std::string_view::npos) why.remove_prefix(line + 2);
    }
    if (why.starts_with('-')) why.remove_prefix(1);
    while (why.ends_with('\n') || why.ends_with('\r')) why.remove_suffix(1);
    fail(unit, !readable || why.empty() ? kMalformed : why);
    return readable;
  }
  if (unit.decision == nullptr) return true;
  Decision decision;
  bool sound = judge(unit, from, false, decision);
  const bool admitted = decision.allowed;
  if (sound && !admitted) sound = judge(unit, from, true, decision);
  if (!sound) {
    fail(unit, kDamaged);
  } else if (admitted != ((flags & kAdmitted) != 0)) {
    fail(unit, kDiffers);
  } else {
    *unit.decision = decision;
  }
  return true;
}

// Leaves the cursor behind the unit's answers; false where they are cut short or are none.
bool ScriptCall::skip(const Unit& unit, Cursor& cursor) const {
  for (std::size_t i = 0; i < unit.count; ++i) {
    const Asked& asked = asked_[unit.first + i];
    std::string_view bytes;
    if (!cursor.take(1, bytes)) return false;
    const auto flags = static_cast<unsigned char>(bytes.front());
    if (flags == kFailed && i == 0) return true;
    if (flags > (i == 0 ? kKnown | kAdmitted : kKnown)) return false;
    if ((flags & kKnown) == 0) continue;
    if (!cursor.take(asked.head_bytes + asked.rings * RingAnswer::kBytes, bytes)) return false;
  }
  return true;
}

// False where a state is none. REQUIRES: skip() has found all that the unit is answered.
bool ScriptCall::judge(const Unit& unit, std::string_view answers, bool retract,
                       Decision& decision) const {
  Together together;
  const char* at = answers.data();
  for (std::size_t i = 0; i < unit.count; ++i) {
    const Asked& asked = asked_[unit.first + i];
    Answer answer{.request = *asked.request, .now = now_, .retract = retract};
    const bool known = (static_cast<unsigned char>(*at++) & kKnown) != 0;
    if (known) {
      const auto& space = static_cast<const RedisSpace&>(*asked.request->space);
      answer.state = asked.head_bytes > 0 ? at + space.states_at() : at;
      answer.ring = at + asked.head_bytes;
      at = answer.ring + asked.rings * RingAnswer::kBytes;
    }
    if (!judge_parts(answer, together)) return false;
  }
  decision = together.decision();
  return true;
}

void ScriptCall::fail(Unit& unit, std::string_view why) {
  if (unit.decision == nullptr) return;
  *unit.decision = {.source = Source::kUnanswered};
  unit.fault_at = faults_.size();
  unit.fault_bytes = why.size();
  faults_ += why;
}

}  // namespace sluice::redis
