#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/together.h"
#include "stores/redis/answer.h"
#include "stores/redis/part_codec.h"
#include "stores/redis/script_call.h"

namespace sluice::redis {

/// What is left of the reply.
struct ScriptCall::Cursor {
  std::string_view answers;  // of all units
  std::string_view faults;   // bulk strings
  bool readable = true;

  /// The reply makes no sense any more.
  void lose() {
    answers = {};
    readable = false;
  }
  /// False where there are not so many.
  bool take(std::size_t count, std::string_view& bytes) {
    if (answers.size() < count) return false;
    bytes = answers.substr(0, count);
    answers.remove_prefix(count);
    return true;
  }
};

namespace {

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

// So many units ahead, what the next decisions need is asked of memory: it was touched last when
// the command was written.
constexpr std::size_t kAhead = 8;

}  // namespace

bool ScriptCall::read(std::string_view reply) {
  Cursor cursor;
  const std::string_view fault = read_head(reply, cursor);
  const std::size_t count = units_.size();
  for (std::size_t i = 0; i < count; ++i) {
    Unit& unit = units_[i];
    if (!unit.written) continue;
    if (i + kAhead < count) {
      const Unit& later = units_[i + kAhead];
      __builtin_prefetch(asked_[later.first].request);
      __builtin_prefetch(later.decision, 1);
    }
    const std::string_view why = fault.empty() ? read_unit(unit, cursor) : fault;
    if (!why.empty()) fail(unit, why);
  }
  return fault.empty() && cursor.readable;
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

// Why there is no decision; empty where it is made, or none is wanted any more.
std::string_view ScriptCall::read_unit(const Unit& unit, Cursor& cursor) const {
  const auto asked = AskedTogether(asked_).subspan(unit.first, unit.count);
  return unit.halves ? read_halves(asked, cursor, unit.decision)
                     : read_answers(asked, cursor, unit.decision);
}

// Each half is taken or denied; together they answer as one that took the sum would.
std::string_view ScriptCall::read_halves(AskedTogether halves, Cursor& cursor,
                                         Decision* decision) const {
  std::string_view why;
  Decision last;
  std::int64_t taken = 0;
  std::chrono::nanoseconds delay{0};
  for (Asked half : halves) {
    half.taken = taken;
    const bool wanted = decision != nullptr && why.empty();
    const std::string_view none = read_answers({&half, 1}, cursor, wanted ? &last : nullptr);
    if (why.empty()) why = none;
    if (!cursor.readable) return why;
    if (!last.allowed) continue;
    if (taken == 0) delay = last.delay;
    taken += half.cost;
  }
  if (decision == nullptr || !why.empty()) return why;
  *decision = last;
  if (taken == 0) return {};
  decision->allowed = true;
  decision->taken = taken;
  decision->delay = delay;
  decision->retry_after = {};
  return {};
}

// Why there is no decision, as above, of requests that are charged as one.
std::string_view ScriptCall::read_answers(AskedTogether asked, Cursor& cursor,
                                          Decision* decision) const {
  const char* const answers = cursor.answers.data();
  const std::size_t bytes = answer_bytes(asked, cursor.answers);
  if (bytes == 0) {
    cursor.lose();
    return kMalformed;
  }
  cursor.answers.remove_prefix(bytes);
  const auto flags = static_cast<unsigned char>(*answers);
  if (flags == Answer::kFailed) {
    std::string_view why;
    if (!read_bulk(cursor.faults, why)) cursor.lose();
    why = error_of(why);
    return why.empty() ? kMalformed : why;
  }
  if (decision == nullptr) return {};
  if (!judge(asked, answers, *decision)) return kDamaged;
  if (decision->allowed != Answer::is_admitted(*answers)) return kDiffers;
  return {};
}

// How long the answers to one unit are; 0 where they are cut short or are none.
std::size_t ScriptCall::answer_bytes(AskedTogether asked, std::string_view answers) {
  std::size_t bytes = 0;
  unsigned possible = Answer::kAdmitted | Answer::kKnown | Answer::kBlocked;
  for (const Asked& one : asked) {
    if (bytes == answers.size()) return 0;
    const auto flags = static_cast<unsigned char>(answers[bytes]);
    if (flags == Answer::kFailed && bytes == 0) return 1;
    if ((flags & ~possible) != 0) return 0;
    possible = Answer::kKnown | Answer::kBlocked;
    bytes += 1;
    if ((flags & Answer::kBlocked) != 0) bytes += sizeof(Instant);
    if ((flags & Answer::kKnown) != 0) bytes += one.head_bytes + one.summed * kSumBytes;
    if (bytes > answers.size()) return 0;
  }
  return bytes;
}

// False where a state is none. REQUIRES: answer_bytes() has found all that is answered.
bool ScriptCall::judge(AskedTogether asked, const char* answers, Decision& decision) const {
  const Asked& first = asked[0];
  const auto& parts = first.request->limit->parts;
  if (asked.size() == 1 && parts.size() == 1) {
    Answer answer{.request = *first.request,
                  .cost = first.cost,
                  .taken = first.taken,
                  .now = now_,
                  .admitted = Answer::is_admitted(*answers)};
    const char* at = answers;
    if (!answer.read(at, first.head_bytes, first.summed)) return false;
    // Most often there is nothing to be joined.
    if (answer.until == 0) return answer.judge(parts[0], decision);
  }
  if (!judge_all(asked, answers, false, decision)) return false;
  return decision.allowed || judge_all(asked, answers, true, decision);
}

bool ScriptCall::judge_all(AskedTogether asked, const char* answers, bool retract,
                           Decision& decision) const {
  Together together;
  const char* at = answers;
  for (const Asked& one : asked) {
    Answer answer{.request = *one.request,
                  .cost = one.cost,
                  .taken = one.taken,
                  .now = now_,
                  .admitted = Answer::is_admitted(*answers),
                  .retract = retract};
    if (!answer.read(at, one.head_bytes, one.summed)) return false;
    if (!answer.judge(together)) return false;
  }
  decision = together.decision();
  return true;
}

void ScriptCall::fail(Unit& unit, std::string_view why) {
  if (unit.decision == nullptr) return;
  *unit.decision = {.source = Source::kUnanswered};
  unit.fault_at = static_cast<std::uint32_t>(faults_.size());
  unit.fault_bytes = static_cast<std::uint32_t>(why.size());
  faults_ += why;
}

}  // namespace sluice::redis
