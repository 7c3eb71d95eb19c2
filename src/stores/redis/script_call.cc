#include "stores/redis/script_call.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <optional>

#include "core/block.h"
#include "core/instant.h"
#include "core/together.h"
#include "stores/redis/part_codec.h"
#include "stores/redis/script.h"

namespace sluice::redis {
namespace {

// What a command has besides its requests, and a request besides what its limit and key take.
constexpr std::size_t kCommandBytes = 256;
constexpr std::size_t kRequestBytes = 64;
constexpr std::size_t kPartBytes = 33;

constexpr std::string_view kMalformed = "the reply to the script cannot be read";
constexpr std::string_view kAnothers = "the reply is not the one to this call";
constexpr std::string_view kDamaged = "the value of the key is damaged";
constexpr std::string_view kDiffers =
    "the script's verdict is not the one that follows from the state it was given";

const RedisSpace& space_of(const Request& request) {
  return static_cast<const RedisSpace&>(*request.space);
}

// Operations are numbered in the script as they are here.
static_assert(
    static_cast<int>(Operation::kTake) == 0 && static_cast<int>(Operation::kTakeUpTo) == 1 &&
    static_cast<int>(Operation::kCharge) == 2 && static_cast<int>(Operation::kRefund) == 3 &&
    static_cast<int>(Operation::kBlock) == 4 && static_cast<int>(Operation::kReset) == 5 &&
    static_cast<int>(Operation::kRenew) == 6 && static_cast<int>(Operation::kRelease) == 7);

std::uint8_t operation_code(const Request& request) {
  constexpr std::uint8_t kPeek = 8;
  const bool has_cost =
      request.operation != Operation::kBlock && request.operation != Operation::kReset;
  return has_cost && request.cost == 0 ? kPeek : static_cast<std::uint8_t>(request.operation);
}

// Appends plain values, as the script unpacks them.
template <class... Values>
void put(std::string& output, const Values&... values) {
  std::array<char, (sizeof values + ...)> bytes;
  char* at = bytes.data();
  ((std::memcpy(at, &values, sizeof values), at += sizeof values), ...);
  output.append(bytes.data(), bytes.size());
}

void put_question(std::string& output, const PartQuestion& question) {
  put(output, question.kind, question.a, question.b, question.d);
  if (question.step_ns != 0) put(output, question.step_ns);
}

// As append_redis_key(), as a bulk string.
void append_key(std::string& output, const Request& request) {
  const std::string& front = space_of(request).front();
  const std::size_t encoded = encoded_bytes(request.key);
  append_text_head(output, front.size() + encoded + 1);
  output += front;
  append_key_end(output, request.key, encoded);
  output += "\r\n";
}

// The bytes of a key in the command, at most.
std::size_t key_bytes(std::string_view key) {
  constexpr std::size_t kShort = 256;  // Not worth counting the bytes that take three.
  return key.size() <= kShort ? 3 * key.size() : encoded_bytes(key);
}

}  // namespace

// In virtual time, instants have nothing to do with the server's clock.
ScriptCall::ScriptCall(const RedisOptions& options)
    : least_lifetime_ms_(options.virtual_time ? kDayNs / kMillisecondNs : 0),
      skew_ms_(options.client_time ? static_cast<double>(options.skew.count()) : 0),
      client_time_(options.client_time),
      bytes_(kCommandBytes) {}

bool ScriptCall::add(std::span<const Request> requests, Decision& decision) {
  assert(!requests.empty());
  std::size_t bytes = bytes_;
  for (const Request& request : requests) {
    bytes += kRequestBytes + (request.limit->parts.size() + 1) * kPartBytes +
             space_of(request).bytes() + key_bytes(request.key);
  }
  if (requests_ + requests.size() > kMaxRequests || bytes > kMaxBytes) return false;
  requests_ += requests.size();
  bytes_ = bytes;
  units_.push_back({.requests = requests, .decision = &decision});
  return true;
}

void ScriptCall::write(Instant now_or_store_time, std::uint32_t number, std::string& output) {
  static_assert(kStoreTime == -1, "the script reads it as 2^64 - 1");
  number_ = number;
  // By the server's clock, windows are named by this one's and mended there.
  const bool given = now_or_store_time != kStoreTime;
  const Instant near = given ? now_or_store_time : wall_now();
  questions_.clear();
  put(questions_, number, given || client_time_ ? near : kStoreTime, least_lifetime_ms_, skew_ms_);
  keys_.clear();
  spaces_.clear();
  for (const Unit& unit : units_) {
    for (const Request& request : unit.requests) {
      append_key(keys_, request);
      put_request(request, &request != &unit.requests.back(), near);
    }
  }

  append_array(output, 4 + requests_ + RedisSpace::kArguments * spaces_.size());
  append_text(output, "EVALSHA");
  append_text(output, script_sha());
  append_text(output, std::to_string(requests_));
  output += keys_;
  append_text(output, questions_);
  for (const RedisSpace* space : spaces_) {
    for (const std::string& argument : space->arguments()) append_text(output, argument);
  }
}

void ScriptCall::put_request(const Request& request, bool has_more, Instant near) {
  const auto& parts = request.limit->parts;
  const bool blocks = request.operation == Operation::kBlock;
  put(questions_, operation_code(request), static_cast<std::uint8_t>(has_more ? 1 : 0),
      space_place(space_of(request)), space_of(request).head_bytes(),
      static_cast<double>(std::min(request.cost, kMaxExact)),
      static_cast<std::uint8_t>(parts.size() + (blocks ? 1 : 0)));
  for (const AnyPart& part : parts) {
    std::visit(
        [&]<class P>(const P& p) {
          put_question(questions_, PartCodec<typename P::Algorithm>::ask(p.params, request, near));
        },
        part);
  }
  if (blocks) put_question(questions_, {.kind = 0, .a = request.duration_ns});
}

// Where the space's arguments begin in ARGV, which counts from 1 and begins with the questions.
std::uint16_t ScriptCall::space_place(const RedisSpace& space) {
  const auto known = std::find(spaces_.begin(), spaces_.end(), &space);
  const auto before = static_cast<std::size_t>(known - spaces_.begin());
  if (known == spaces_.end()) spaces_.push_back(&space);
  return static_cast<std::uint16_t>(2 + RedisSpace::kArguments * before);
}

namespace {

// What the script replies about one request.
struct Answer {
  const Request& request;
  const Instant now;
  const bool admitted;    // The script's verdict on the unit.
  std::int64_t cost = 0;  // With which the C++ transition is asked the same.
  // Where the next part finds its state, null where the key is fresh, or its summary.
  const char* state = nullptr;
  const char* summary = nullptr;
  Instant until = 0;       // When the key's block ends; 0 where there is none.
  std::int64_t taken = 0;  // Of a take of as much as there is.
};

// What follows where the whole unit is admitted, and where it is denied: then nothing is charged,
// and what would be admitted stands as a peek.
template <class T>
struct Either {
  T admitted;
  T denied;
};

bool takes_up_to(const Request& request) {
  return request.operation == Operation::kTakeUpTo && request.cost > 0;
}

// So many bytes off the front of `rest`; null where there are not as many.
const char* take(std::string_view& rest, std::size_t bytes) {
  if (rest.size() < bytes) return nullptr;
  const char* const at = rest.data();
  rest.remove_prefix(bytes);
  return at;
}

// Reads an answer off the front of `rest`; false where it makes no sense.
bool read_answer(std::string_view& rest, Answer& answer) {
  constexpr char kKnown = 1;
  constexpr char kBlocked = 2;
  const Request& request = answer.request;
  const RedisSpace& space = space_of(request);
  const char* const flags = take(rest, 1);
  if (flags == nullptr || (*flags & ~(kKnown | kBlocked)) != 0) return false;
  if ((*flags & kBlocked) != 0) {
    const char* const until = take(rest, sizeof answer.until);
    if (until == nullptr || (answer.until = read_int64(until)) <= answer.now) return false;
  }
  if ((*flags & kKnown) != 0) {
    const char* const head = take(rest, space.head_bytes());
    if (head == nullptr) return false;
    answer.state = head + space.states_at();
  }
  answer.summary = take(rest, space.summed() * kSummaryBytes);
  if (answer.summary == nullptr) return false;
  if (takes_up_to(request)) {
    const char* const taken = take(rest, sizeof(double));
    if (taken == nullptr || !read_count(taken, answer.taken)) return false;
  }
  if (request.operation == Operation::kReset) {
    answer.state = nullptr;
    answer.until = 0;
  } else if (request.operation == Operation::kBlock) {
    answer.until = block_until(answer.until, answer.now, request.duration_ns);
  }
  return true;
}

Call call_of(const Answer& answer) {
  const bool up_to = answer.request.operation == Operation::kTakeUpTo;
  return {.now = answer.now,
          .cost = answer.cost,
          .patience_ns = up_to ? kDefaultPatience : answer.request.patience_ns,
          .unspent_only = up_to,
          .permit = answer.request.permit};
}

// The summary is of the permits that are held afterwards; what is renewed or released was held if
// the script says so. False where what is held makes no sense.
bool decide_permits(const Concurrency::Params& params, const Answer& answer, Decision& decision) {
  const Operation operation = answer.request.operation;
  const bool taking = takes(operation, answer.cost);
  Concurrency::Held held;
  if (operation != Operation::kReset) {
    if (!read_held(answer.summary, held)) return false;
    if (held.count > 0 && held.last_ns <= answer.now) return false;
    if (held.count >= params.limit && held.room_ns <= answer.now) return false;
  }
  bool allowed = true;
  if (taking) {
    const bool room =
        answer.admitted ? held.count > 0 && held.count <= params.limit : held.count < params.limit;
    allowed = answer.cost == 1 && room;
  } else if (operation == Operation::kRenew) {
    allowed = answer.admitted && held.count > 0 && held.last_ns - params.lease_ns >= answer.now;
  } else if (operation == Operation::kRelease) {
    allowed = answer.admitted;
  }
  decision = Concurrency::answer(params, held, allowed, call_of(answer));
  if (!allowed && !taking) decision.retry_after = kNever;
  return true;
}

// The decision of the next part, by the same transition as in memory. False where its state is
// damaged.
template <class A>
bool decide_part(const typename A::Params& params, Answer& answer, Either<Decision>& decision) {
  if constexpr (LendingAlgorithm<A>) {
    if (!decide_permits(params, answer, decision.admitted)) return false;
    decision.denied = decision.admitted;
  } else {
    typename A::State state;
    RingSummary ring;
    const Operation operation = answer.request.operation;
    if constexpr (kIsRing<A>) {
      if (!ring.read(answer.summary)) return false;
      answer.summary += kSummaryBytes;
      if (answer.state != nullptr) state = ring.ring(operation, answer.cost, params.limit);
    } else if (answer.state != nullptr && !PartCodec<A>::read(answer.state, state)) {
      return false;
    }
    if (answer.state != nullptr) answer.state += PartCodec<A>::kStateBytes;
    decision.admitted = apply<A>(operation, params, state, call_of(answer)).decision;
    decision.denied = decision.admitted;
    if (decision.admitted.allowed) {
      decision.denied = A::take(params, state, {.now = answer.now, .cost = 0}).decision;
    }
  }
  return true;
}

// Calls visit(index, decision) for each part, without the key's block. False as above.
template <class Visit>
bool each_part(Answer answer, const Visit& visit) {
  const auto& parts = answer.request.limit->parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Either<Decision> decision;
    const bool readable = std::visit(
        [&]<class P>(const P& p) {
          return decide_part<typename P::Algorithm>(p.params, answer, decision);
        },
        parts[i]);
    if (!readable) return false;
    visit(i, decision);
  }
  return true;
}

void apply_block(const Answer& answer, Either<Decision>& decision) {
  const bool barred = takes(answer.request.operation, answer.cost);
  const auto block = [&](const Decision& one) {
    return block_decision(one, barred, answer.now, answer.until);
  };
  decision = {block(barred ? decision.denied : decision.admitted), block(decision.denied)};
}

// The decision of a request, and into `wanted`, where it is not empty, those of its parts. Returns
// why there is none, or nothing.
std::string_view decide(Answer& answer, Either<Decision>& decision, std::span<Decision> wanted) {
  const Request& request = answer.request;
  answer.cost = request.cost;
  if (takes_up_to(request)) {
    answer.cost = 0;
    std::int64_t units = request.cost;
    const auto limit_units = [&](std::size_t, const Either<Decision>& part) {
      units = std::min(units, part.admitted.remaining);
    };
    if (!each_part(answer, limit_units)) return kDamaged;
    if (answer.taken != units) return kDiffers;
    answer.cost = std::max<std::int64_t>(1, answer.taken);
  }
  Either<Together> all;
  const auto add = [&](std::size_t i, Either<Decision>& part) {
    if (answer.until > 0) apply_block(answer, part);
    all.admitted.add(part.admitted);
    all.denied.add(part.denied);
    if (!wanted.empty()) wanted[i] = answer.admitted ? part.admitted : part.denied;
  };
  if (!each_part(answer, add)) return kDamaged;
  decision = {all.admitted.decision(), all.denied.decision()};
  return {};
}

// The text of an error without its prefix and line end.
std::string_view error_of(std::string_view text) {
  // Servers before 7.0 name the place in the script, and append the line with its '-' and CR LF.
  if (text.starts_with("@user_script")) {
    const std::size_t line = text.find(": -");
    if (line != std::string_view::npos) text.remove_prefix(line + 2);
  }
  if (text.starts_with('-')) text.remove_prefix(1);
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

}  // namespace

bool ScriptCall::read(std::string_view reply) {
  std::string_view lost = read_head(reply);
  for (Unit& unit : units_) {
    std::string_view why = lost;
    if (lost.empty()) {
      const std::optional<std::string_view> answer = take_text(reply);
      why = answer ? read_unit(unit, *answer) : kMalformed;
    }
    if (why == kMalformed) lost = kMalformed;
    if (why.empty() || unit.decision == nullptr) continue;
    *unit.decision = {.source = Source::kUnavailable};
    unit.error = why;
  }
  return lost.empty();
}

// Takes off what comes before the answers. Returns why nothing of the reply is to be believed, or
// nothing.
std::string_view ScriptCall::read_head(std::string_view& rest) {
  if (take_array(rest) != units_.size() + 1) return kMalformed;
  std::string_view head = take_text(rest).value_or("");
  const char* const number = take(head, sizeof number_);
  const char* const now = take(head, sizeof now_);
  if (now == nullptr) return kMalformed;
  if (std::memcmp(number, &number_, sizeof number_) != 0) return kAnothers;
  return read_instant(now, now_) ? std::string_view() : kMalformed;
}

// Makes the decision. Returns why there is none; nothing where it is made, or not wanted any more.
std::string_view ScriptCall::read_unit(const Unit& unit, std::string_view reply) const {
  const char* const verdict = take(reply, 1);
  if (verdict == nullptr) return kMalformed;
  if (*verdict == '-') return error_of(reply).empty() ? kMalformed : error_of(reply);
  if (*verdict != '0' && *verdict != '1') return kMalformed;
  if (unit.decision == nullptr) return {};
  const bool admitted = *verdict == '1';
  const bool is_alone = unit.requests.size() == 1;
  Either<Together> together;
  Either<Decision> decision;
  std::int64_t taken = 0;
  for (const Request& request : unit.requests) {
    Answer answer{.request = request, .now = now_, .admitted = admitted};
    if (!read_answer(reply, answer)) return kMalformed;
    const auto parts = is_alone ? request.parts : std::span<Decision>();
    const std::string_view why = decide(answer, decision, parts);
    if (!why.empty()) return why;
    taken = answer.taken;
    if (is_alone) break;
    together.admitted.add(decision.admitted);
    together.denied.add(decision.denied);
    if (!request.parts.empty()) request.parts[0] = admitted ? decision.admitted : decision.denied;
  }
  if (!reply.empty()) return kMalformed;
  if (!is_alone) decision = {together.admitted.decision(), together.denied.decision()};
  if (decision.admitted.allowed != admitted) return kDiffers;
  *unit.decision = admitted ? decision.admitted : decision.denied;
  if (admitted) unit.decision->taken = taken;
  return {};
}

}  // namespace sluice::redis
