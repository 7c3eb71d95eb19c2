#include <algorithm>
#include <charconv>

#include "core/block.h"
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
constexpr unsigned kAdmitted = 1;
constexpr unsigned kKnown = 2;
constexpr unsigned kFailed = 4;  // alone
constexpr unsigned kBlocked = 8;

constexpr std::string_view kMalformed = "the reply to the script cannot be read";
constexpr std::string_view kAnothers = "the reply is not the one to this call";
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

// What an error says, without what stands around it.
std::string_view error_of(std::string_view text) {
  // Servers before 7.0 say where in the script it was, then give the line as it stands on the wire.
  if (text.starts_with("@user_script")) {
    const std::size_t line = text.find(": -");
    if (line != std::string_view::npos) text.remove_prefix(line + 2);
  }
  if (text.starts_with('-')) text.remove_prefix(1);
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

// What was answered to one request, and how far its parts have been read.
struct Answer {
  const Request& request;
  std::int64_t cost = 0;
  Instant now = 0;
  const char* state = nullptr;  // of the next part in the head; null where the key is fresh
  const char* sum = nullptr;    // of the next ring, or of the permits
  /// The script's verdict.
  bool admitted = false;
  /// Nothing is charged, so what would be admitted stands as a peek sees it.
  bool retract = false;

  Call call() const {
    const bool up_to = request.operation == Operation::kTakeUpTo;
    return {.now = now,
            .cost = cost,
            .patience_ns = up_to ? kDefaultPatience : request.patience_ns,
            .unspent_only = up_to,
            .permit = request.permit};
  }
};

template <class A>
Decision decide(const typename A::Params& params, const typename A::State& state,
                const Answer& answer) {
  const Decision decision =
      apply<A>(answer.request.operation, params, state, answer.call()).decision;
  if (!answer.retract || !decision.allowed) return decision;
  return A::take(params, state, {.now = answer.now, .cost = 0}).decision;
}

// What follows from the permits that are held afterwards; what is renewed or given back was held if
// the script says so.
Decision decide_permits(const Concurrency::Params& params, const Concurrency::Held& held,
                        const Answer& answer) {
  const Operation operation = answer.request.operation;
  bool allowed = true;
  if (takes(operation, answer.cost)) {
    const bool room =
        answer.admitted ? held.count > 0 && held.count <= params.limit : held.count < params.limit;
    allowed = answer.cost == 1 && room;
  } else if (operation == Operation::kRenew) {
    allowed = answer.admitted && held.count > 0 && held.last_ns - params.lease_ns >= answer.now;
  } else if (operation == Operation::kRelease) {
    allowed = answer.admitted;
  }
  Decision decision = Concurrency::answer(params, held, allowed, answer.call());
  if (!allowed && !takes(operation, answer.cost)) decision.retry_after = kNever;
  return decision;
}

// False where what is held makes no sense.
bool judge_permits(const Concurrency::Params& params, Answer& answer, Together& together) {
  Concurrency::Held held;
  if (answer.request.operation != Operation::kReset) {
    if (answer.state == nullptr || !read_held(answer.sum, held)) return false;
    if (held.count > 0 && held.last_ns <= answer.now) return false;
    if (held.count >= params.limit && held.room_ns <= answer.now) return false;
  }
  together.add(decide_permits(params, held, answer));
  return true;
}

// False where the state is none.
template <class A>
bool judge_part(const typename A::Params& params, Answer& answer, Together& together) {
  if constexpr (LendingAlgorithm<A>) {
    return judge_permits(params, answer, together);
  } else {
    typename A::State state;
    RingAnswer ring;
    if (answer.state != nullptr && answer.request.operation != Operation::kReset) {
      if constexpr (kIsRing<A>) {
        if (!ring.read(answer.sum)) return false;
        answer.sum += kSumBytes;
        state =
            ring.ring({.operation = answer.request.operation, .cost = answer.cost}, params.limit);
      } else if (!PartCodec<A>::read(answer.state, state)) {
        return false;
      }
      answer.state += PartCodec<A>::kStateBytes;
    }
    together.add(decide<A>(params, state, answer));
    return true;
  }
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

// The same for a key that is blocked until then: its parts answer as one.
bool judge_blocked(Answer& answer, Instant until, Together& together) {
  const bool denied = takes(answer.request.operation, answer.cost);
  answer.retract = answer.retract || denied;
  Together parts;
  if (!judge_parts(answer, parts)) return false;
  together.add(block_decision(parts.decision(), denied, answer.now, until));
  return true;
}

// So many units ahead, what the next decisions need is asked of memory: it was touched last when
// the command was written.
constexpr std::size_t kAhead = 8;

}  // namespace

/// What became of requests that are charged as one.
struct ScriptCall::Verdict {
  bool readable = true;  // False: the reply makes no sense any more.
  std::string_view why =
      {};  // Why there is no decision; empty where there is one, or none is wanted.
  Decision decision = {};
};

bool ScriptCall::read(std::string_view reply) {
  Cursor cursor;
  const std::string_view fault = read_head(reply, cursor);
  bool readable = fault.empty();
  for (std::size_t i = 0; i < units_.size(); ++i) {
    Unit& unit = units_[i];
    if (!unit.written) continue;
    if (i + kAhead < units_.size()) {
      const Unit& later = units_[i + kAhead];
      __builtin_prefetch(asked_[later.first].request);
      __builtin_prefetch(later.decision, 1);
    }
    if (!fault.empty()) {
      fail(unit, fault);
    } else if (!read_unit(unit, cursor)) {
      cursor.answers = {};
      readable = false;
    }
  }
  return readable;
}

// Why nothing of the reply is to be believed; empty where the cursor stands before the answers.
std::string_view ScriptCall::read_head(std::string_view reply, Cursor& cursor) {
  std::size_t length = 0;
  std::string_view number;
  std::string_view now;
  const bool readable = read_length(reply, '*', length) && length >= 1 &&
                        read_bulk(reply, cursor.answers) && cursor.take(sizeof number_, number) &&
                        cursor.take(sizeof now_, now);
  if (!readable) return kMalformed;
  if (std::memcmp(number.data(), &number_, sizeof number_) != 0) return kAnothers;
  if (!sluice::redis::read_instant(now.data(), now_)) return kMalformed;
  cursor.faults = reply;
  return {};
}

// False where the reply makes no sense any more.
bool ScriptCall::read_unit(Unit& unit, Cursor& cursor) {
  const auto asked = AskedTogether(asked_).subspan(unit.first, unit.count);
  const Verdict verdict = unit.halves ? read_halves(unit, cursor)
                                      : read_verdict(asked, cursor, unit.decision != nullptr);
  if (!verdict.why.empty()) {
    fail(unit, verdict.why);
  } else if (unit.decision != nullptr) {
    *unit.decision = verdict.decision;
  }
  return verdict.readable;
}

// Each half is taken or denied; together they answer as one that took the sum would.
ScriptCall::Verdict ScriptCall::read_halves(const Unit& unit, Cursor& cursor) const {
  Verdict all;
  std::int64_t taken = 0;
  std::chrono::nanoseconds delay{0};
  for (const Asked& half : AskedTogether(asked_).subspan(unit.first, unit.count)) {
    const bool wanted = unit.decision != nullptr && all.why.empty();
    const Verdict one = read_verdict({&half, 1}, cursor, wanted);
    if (all.why.empty()) all.why = one.why;
    all.readable = one.readable;
    if (!all.readable) return all;
    if (one.decision.allowed) {
      if (taken == 0) delay = one.decision.delay;
      taken += half.cost;
    }
    all.decision = one.decision;
  }
  if (taken == 0) return all;
  all.decision.allowed = true;
  all.decision.taken = taken;
  all.decision.delay = delay;
  all.decision.retry_after = {};
  return all;
}

ScriptCall::Verdict ScriptCall::read_verdict(AskedTogether asked, Cursor& cursor,
                                             bool wanted) const {
  const std::string_view from = cursor.answers;
  if (!skip(asked, cursor)) return {.readable = false, .why = kMalformed};
  const auto flags = static_cast<unsigned char>(from.front());
  if (flags == kFailed) {
    std::string_view why;
    const bool readable = read_bulk(cursor.faults, why);
    why = error_of(why);
    return {.readable = readable, .why = !readable || why.empty() ? kMalformed : why};
  }
  Verdict verdict;
  if (!wanted) return verdict;
  bool sound = judge(asked, from, false, verdict.decision);
  const bool admitted = verdict.decision.allowed;
  if (sound && !admitted) sound = judge(asked, from, true, verdict.decision);
  if (!sound) {
    verdict.why = kDamaged;
  } else if (admitted != ((flags & kAdmitted) != 0)) {
    verdict.why = kDiffers;
  }
  return verdict;
}

// Leaves the cursor behind the answers; false where they are cut short or are none.
bool ScriptCall::skip(AskedTogether asked, Cursor& cursor) {
  for (const Asked& one : asked) {
    const bool first = &one == asked.data();
    std::string_view bytes;
    if (!cursor.take(1, bytes)) return false;
    const auto flags = static_cast<unsigned char>(bytes.front());
    if (flags == kFailed && first) return true;
    if ((flags & ~(kKnown | kBlocked | (first ? kAdmitted : 0U))) != 0) return false;
    if ((flags & kBlocked) != 0 && !cursor.take(sizeof(Instant), bytes)) return false;
    if ((flags & kKnown) == 0) continue;
    if (!cursor.take(one.head_bytes + one.summed * kSumBytes, bytes)) return false;
  }
  return true;
}

// False where a state is none. REQUIRES: skip() has found all that is answered.
bool ScriptCall::judge(AskedTogether asked, std::string_view answers, bool retract,
                       Decision& decision) const {
  Together together;
  const char* at = answers.data();
  const bool admitted = (static_cast<unsigned char>(*at) & kAdmitted) != 0;
  for (const Asked& one : asked) {
    const Request& request = *one.request;
    Answer answer{.request = request,
                  .cost = one.cost,
                  .now = now_,
                  .admitted = admitted,
                  .retract = retract};
    const auto flags = static_cast<unsigned char>(*at++);
    Instant until = 0;
    if ((flags & kBlocked) != 0) {
      until = read_int64(at);
      at += sizeof until;
      if (until <= now_) return false;
    }
    if ((flags & kKnown) != 0) {
      const auto& space = static_cast<const RedisSpace&>(*request.space);
      answer.state = one.head_bytes > 0 ? at + space.states_at() : at;
      answer.sum = at + one.head_bytes;
      at = answer.sum + one.summed * kSumBytes;
    }
    if (request.operation == Operation::kReset) until = 0;
    if (request.operation == Operation::kBlock)
      until = block_until(until, now_, request.duration_ns);
    if (!(until == 0 ? judge_parts(answer, together) : judge_blocked(answer, until, together))) {
      return false;
    }
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
