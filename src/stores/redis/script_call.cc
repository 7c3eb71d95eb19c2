#include "stores/redis/script_call.h"

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <cassert>
#include <cstring>
#include <optional>

#include "algorithms/judge_parts.h"
#include "core/block.h"
#include "core/instant.h"
#include "stores/redis/part_codec.h"
#include "stores/redis/resp.h"

namespace sluice::redis {
namespace {

// The bytes of a command besides its keys and requests, at most: mostly arguments of spaces.
constexpr std::size_t kOtherBytes = std::size_t{32} << 10;

constexpr std::string_view kMalformed = "the reply to the script cannot be read";
constexpr std::string_view kOfAnotherCall = "the reply is not the one to this call";
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

void put_part(std::string& output, const PartArguments& part) {
  put(output, part.kind, part.a, part.b, part.d);
  if (part.step_ns != 0) put(output, part.step_ns);
}

}  // namespace

ScriptCall::ScriptCall(const RedisOptions& options, Instant now, std::uint32_t number)
    : number_(number), guess_(now == kStoreTime ? wall_now() : now) {
  static_assert(kStoreTime == -1, "the script reads it as 2^64 - 1");
  const bool is_given = now != kStoreTime || options.client_time;
  // In milliseconds. In virtual time, instants have nothing to do with the server's clock, so
  // states need no time of it but that of the replay.
  const double lifetime = options.virtual_time ? kDayNs / kMillisecondNs : 0;
  const double skew = options.client_time ? static_cast<double>(options.skew.count()) : 0;
  put(first_argument_, number, is_given ? guess_ : kStoreTime, lifetime, skew);
}

bool ScriptCall::add(PendingRequest& pending) {
  assert(!pending.requests.empty());
  if (keys_ + pending.requests.size() > kMaxRequests) return false;
  const std::size_t names_before = names_.size();
  const std::size_t argument_before = first_argument_.size();
  const std::size_t spaces_before = spaces_.size();
  for (const Request& request : pending.requests) {
    space_of(request).name_of(request.key, name_);
    append_text(names_, name_);
    put_request(request, &request != &pending.requests.back());
  }
  if (names_.size() + first_argument_.size() > kMaxBytes - kOtherBytes) {
    names_.resize(names_before);
    first_argument_.resize(argument_before);
    spaces_.resize(spaces_before);
    return false;
  }
  keys_ += pending.requests.size();
  pending.place = static_cast<std::uint32_t>(requests_.size());
  requests_.push_back(&pending);
  return true;
}

void ScriptCall::write(std::string& output) const {
  append_array(output, 4 + keys_ + RedisSpace::kArguments * spaces_.size());
  append_text(output, "EVALSHA");
  append_text(output, script_sha());
  append_text(output, std::to_string(keys_));
  output += names_;
  append_text(output, first_argument_);
  for (const RedisSpace* space : spaces_) {
    for (const std::string& argument : space->arguments()) append_text(output, argument);
  }
}

void ScriptCall::put_request(const Request& request, bool has_more) {
  const auto& parts = request.limit->parts;
  const bool blocks = request.operation == Operation::kBlock;
  put(first_argument_, operation_code(request), static_cast<std::uint8_t>(has_more ? 1 : 0),
      space_place(space_of(request)), space_of(request).head_bytes(),
      static_cast<double>(std::min(request.cost, kMaxExact)),
      static_cast<std::uint8_t>(parts.size() + (blocks ? 1 : 0)));
  Request of_part = request;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_uncounted = (request.uncounted_parts >> i & 1U) != 0;
    if (is_uncounted) of_part.cost = 0;
    std::visit(
        [&]<class P>(const P& p) {
          PartArguments part = PartCodec<typename P::Algorithm>::ask(p.params, of_part, guess_);
          if (is_uncounted) part.kind |= kUncounted;
          put_part(first_argument_, part);
        },
        parts[i]);
    of_part.cost = request.cost;
  }
  if (blocks) put_part(first_argument_, {.kind = 0, .a = request.duration_ns});
}

// Where the space's arguments begin in ARGV, which counts from 1 and begins with the requests.
std::uint16_t ScriptCall::space_place(const RedisSpace& space) {
  const auto known = std::find(spaces_.begin(), spaces_.end(), &space);
  const auto before = static_cast<std::size_t>(known - spaces_.begin());
  if (known == spaces_.end()) spaces_.push_back(&space);
  return static_cast<std::uint16_t>(2 + RedisSpace::kArguments * before);
}

namespace {

bool takes_up_to(const Request& request) {
  return request.operation == Operation::kTakeUpTo && request.cost > 0;
}

// Takes so many bytes off the front of `rest`; null if there are not as many.
const char* take(std::string_view& rest, std::size_t bytes) {
  if (rest.size() < bytes) return nullptr;
  const char* const at = rest.data();
  rest.remove_prefix(bytes);
  return at;
}

AnswerLayout layout_of(const Request& request) {
  const RedisSpace& space = space_of(request);
  return {.head = space.head_bytes(),
          .tail = space.summary_bytes() + (takes_up_to(request) ? sizeof(double) : 0)};
}

// Where the pieces of an answer to one request lie.
struct AnswerPieces {
  const char* head = nullptr;  // Of the key's value; null if it has none.
  const char* tail = nullptr;  // The summaries, then what was taken.
};

// Takes an answer off the front of `rest`; false if there is none.
bool take_answer(std::string_view& rest, const AnswerLayout& layout, AnswerPieces& pieces) {
  const char* const flag = take(rest, 1);
  if (flag == nullptr || (*flag != 0 && *flag != 1)) return false;
  const bool is_known = *flag == 1;
  if (is_known) pieces.head = take(rest, layout.head);
  pieces.tail = take(rest, layout.tail);
  return pieces.tail != nullptr && (pieces.head != nullptr) == is_known;
}

// Passes over the answers to a request or group that was forgotten.
bool skip_answers(const std::vector<AnswerLayout>& layouts, std::string_view& rest) {
  return std::ranges::all_of(layouts, [&](const AnswerLayout& layout) {
    AnswerPieces ignored;
    return take_answer(rest, layout, ignored);
  });
}

// The script's reply about one request.
struct Answer {
  const Request& request;
  const Instant now;
  const bool admitted;  // The script's verdict on the request, or on its group.
  AnswerPieces pieces = {};
  Instant until = 0;       // When the key's block ends; 0 if it has none.
  std::int64_t taken = 0;  // By a request that takes as much as there is.
  Instant written = 0;     // See ScriptCall::written_at().
};

// False if the answer makes no sense.
bool read_answer(std::string_view& rest, Answer& answer) {
  const Request& request = answer.request;
  const AnswerLayout layout = layout_of(request);
  AnswerPieces& pieces = answer.pieces;
  if (!take_answer(rest, layout, pieces)) return false;
  if (pieces.head != nullptr) {
    const char* const end = pieces.head + layout.head;
    const Instant until = read_int64(end - kInstantsBytes);
    if (until > answer.now) answer.until = until;
    std::uint32_t units = 0;
    std::memcpy(&units, end - sizeof units, sizeof units);
    answer.written = units * kInstantUnitNs;
  }
  if (takes_up_to(request)) {
    const char* const taken = pieces.tail + layout.tail - sizeof(double);
    if (!read_count(taken, answer.taken)) return false;
  }
  if (request.operation == Operation::kBlock) {
    answer.until = block_until(answer.until, answer.now, request.duration_ns);
  }
  return true;
}

// The summary is of the permits that are held afterwards. A permit that is renewed or released was
// held if the script says so. False if the summary makes no sense.
bool decide_permits(const Concurrency::Params& params, const Answer& answer, const Call& call,
                    Decision& decision) {
  const Operation operation = answer.request.operation;
  const bool taking = can_be_denied(operation, call.cost);
  Concurrency::Held held;
  if (!read_held(answer.pieces.tail, held)) return false;
  if (held.count > 0 && held.last_ns <= answer.now) return false;
  if (held.count >= params.limit && held.room_ns <= answer.now) return false;
  bool allowed = true;
  if (taking) {
    const bool room =
        answer.admitted ? held.count > 0 && held.count <= params.limit : held.count < params.limit;
    allowed = call.cost == 1 && room;
  } else if (operation == Operation::kRenew) {
    allowed = answer.admitted && held.count > 0 && held.last_ns - params.lease_ns >= answer.now;
  } else if (operation == Operation::kRelease) {
    allowed = answer.admitted;
  }
  decision = Concurrency::answer(params, held, allowed, call);
  if (!allowed && !taking) decision.retry_after = kNever;
  return true;
}

// The decision of one part, by the same transition as in memory. False if its state is damaged.
template <class A>
bool decide_part(const typename A::Params& params, Answer& answer, std::size_t part,
                 Operation operation, const Call& call, Decision& decision) {
  if constexpr (LendingAlgorithm<A>) {
    return decide_permits(params, answer, call, decision);
  } else {
    const RedisSpace::PartPlace& place = space_of(answer.request).place(part);
    const char* const head = answer.pieces.head;
    typename A::State state;
    RingSummary ring;
    if constexpr (kIsRing<A>) {
      if (!ring.read(answer.pieces.tail + place.summary)) return false;
      if (head != nullptr) state = ring.ring(operation, call.cost, params.limit);
    } else if (head != nullptr && !PartCodec<A>::read(head + place.state, state)) {
      return false;
    }
    decision = apply<A>(operation, params, state, call).decision;
  }
  return true;
}

// The decision of a request, and into `wanted`, unless it is empty, those of its parts. Returns why
// there is none, or nothing.
std::string_view decide(Answer& answer, Decision& decision, std::span<Decision> wanted) {
  const Request& request = answer.request;
  const std::vector<AnyPart>& parts = request.limit->parts;
  bool is_readable = true;
  const auto judge = [&](std::size_t i, Operation operation, const Call& call) {
    Decision part;
    std::visit(
        [&]<class P>(const P& p) {
          using A = typename P::Algorithm;
          if (!decide_part<A>(p.params, answer, i, operation, call, part)) is_readable = false;
        },
        parts[i]);
    return part;
  };
  Call call = call_of(request, answer.now);
  if (takes_up_to(request)) {
    call.cost = units_left(parts.size(), call, judge);
    if (is_readable && answer.taken != call.cost) return kDiffers;
    call.cost = std::max<std::int64_t>(1, call.cost);
  }
  PartDecisions decisions(parts.size());
  judge_parts(std::span(decisions), request.operation, call,
              {.blocked_until = answer.until,
               .others_admit = answer.admitted,
               .uncounted_parts = request.uncounted_parts},
              judge);
  if (!is_readable) return kDamaged;
  if (!wanted.empty()) std::ranges::copy(decisions, wanted.begin());
  decision = combined(decisions);
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

// Takes the server's error off the front of `rest`; false if there is none.
bool take_error(std::string_view& rest, std::string_view& error) {
  std::uint16_t size = 0;
  const char* const bytes = take(rest, sizeof size);
  if (bytes == nullptr) return false;
  std::memcpy(&size, bytes, sizeof size);
  const char* const text = take(rest, size);
  if (text != nullptr) error = error_of({text, size});
  return !error.empty();
}

}  // namespace

void ScriptCall::forget(const PendingRequest& pending) {
  auto& layouts = forgotten_[pending.place];
  for (const Request& request : pending.requests) layouts.push_back(layout_of(request));
  requests_[pending.place] = nullptr;
}

bool ScriptCall::read(std::string_view reply, const Done& done) {
  std::string_view rest;
  // Why the reply cannot be read from here on.
  std::string_view lost = read_head(reply, rest);
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    std::string_view error;  // Why this one alone has no decision.
    const bool is_written = rest.starts_with('1') || rest.starts_with('+');
    if (lost.empty() && !read_unit(i, rest, error)) lost = kMalformed;
    const bool is_last = i + 1 == requests_.size();
    if (lost.empty() && is_last && !rest.empty()) lost = kMalformed;
    PendingRequest* const pending = requests_[i];
    if (pending == nullptr) continue;
    // The script has written what it has admitted, whatever is wrong with the rest of its answer.
    pending->may_be_executed = !lost.empty() || (is_written && !error.empty());
    done(*pending, lost.empty() ? error : lost);
  }
  return lost.empty();
}

// Sets `rest` to the bytes after the head. Returns why the reply cannot be used, or nothing.
std::string_view ScriptCall::read_head(std::string_view reply, std::string_view& rest) {
  const std::optional<Reply> text = read_reply(reply);
  if (text) rest = text->text;
  const char* const number = take(rest, sizeof number_);
  const char* const now = take(rest, sizeof now_);
  if (now == nullptr) return kMalformed;
  if (std::memcmp(number, &number_, sizeof number_) != 0) return kOfAnotherCall;
  return read_instant(now, now_) ? std::string_view() : kMalformed;
}

// Makes the decision of the i-th request or group, or sets `error`, or passes over it if it was
// forgotten. False if the reply cannot be read from here on.
bool ScriptCall::read_unit(std::size_t i, std::string_view& rest, std::string_view& error) {
  written_at_ = 0;
  const char* const verdict = take(rest, 1);
  if (verdict != nullptr && (*verdict == '-' || *verdict == '+')) return take_error(rest, error);
  if (verdict == nullptr || (*verdict != '0' && *verdict != '1')) return false;
  const bool admitted = *verdict == '1';
  if (requests_[i] == nullptr) return skip_answers(forgotten_.at(i), rest);
  const PendingRequest& pending = *requests_[i];
  const bool is_alone = pending.requests.size() == 1;
  boost::container::static_vector<Decision, kMaxTogether> decisions;
  for (const Request& request : pending.requests) {
    Answer answer{.request = request, .now = now_, .admitted = admitted};
    if (!read_answer(rest, answer)) return false;
    if (!error.empty()) continue;
    Decision& decision = decisions.emplace_back();
    const std::size_t own = is_alone || request.parts.empty() ? 0 : 1;
    error = decide(answer, decision, request.parts.subspan(own));
    written_at_ = std::max(written_at_, answer.written);
    if (admitted) decision.taken = answer.taken;
    if (own != 0) request.parts[0] = decision;
  }
  if (!error.empty()) return true;
  const Decision decision = combined(decisions);
  if (decision.allowed != admitted) error = kDiffers;
  if (error.empty()) *pending.decision = decision;
  return true;
}

}  // namespace sluice::redis
