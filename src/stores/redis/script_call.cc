#include "stores/redis/script_call.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "core/instant.h"
#include "core/together.h"
#include "stores/redis/part_codec.h"
#include "stores/redis/redis_key.h"
#include "stores/redis/script.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::redis {
namespace {

// A ring that may come to more slots is not read as a whole.
constexpr std::int64_t kMostWholeSlots = 64;
// What a command has besides its requests, and a request besides what its limit and key take.
constexpr std::size_t kCommandBytes = 256;
constexpr std::size_t kRequestBytes = 64;
constexpr std::size_t kPartBytes = 41;

const RedisSpace& space_of(const Request& request) {
  return static_cast<const RedisSpace&>(*request.space);
}

void append_length(std::string& output, char type, std::size_t length) {
  output += type;
  output += std::to_string(length);
  output += "\r\n";
}

// What the script calls the operation; one that is not the limit's is a peek.
std::uint8_t operation_code(const Request& request) {
  constexpr std::uint8_t kPeek = 4;
  const auto unless = [&](bool none, std::uint8_t code) {
    return none || request.cost == 0 ? kPeek : code;
  };
  switch (request.operation) {
    case Operation::kTake:
    case Operation::kTakeUpTo:
      return unless(false, 1);
    case Operation::kCharge:
      return unless(lends(*request.limit), 2);
    case Operation::kRefund:
      return unless(lends(*request.limit), 3);
    case Operation::kReset:
      return 5;
    case Operation::kBlock:
      return 6;
    case Operation::kRenew:
      return unless(!lends(*request.limit), 7);
    case Operation::kRelease:
      return unless(!lends(*request.limit), 8);
  }
  return kPeek;
}

// As much of a cost as a limit can ever admit at once without a debt.
std::int64_t most_to_take(const Request& request) {
  std::int64_t most = request.cost;
  for (const AnyPart& part : request.limit->parts) {
    std::visit(
        [&]<class P>(const P& p) {
          const auto fresh = P::Algorithm::take(p.params, {}, {.now = 0, .cost = 0});
          most = std::min(most, fresh.decision.limit);
        },
        part);
  }
  return most;
}

}  // namespace

/// How a request stands to the next, or to the one before.
enum class ScriptCall::Link : std::uint8_t {
  kNone = 0,
  kMore = 1,    ///< It is charged with the next, both or none.
  kGoesOn = 2,  ///< It takes after the one before, and both are one request.
};

/// What stands before a request's parts, as the script unpacks it.
struct ScriptCall::Header {
  std::uint8_t operation;
  std::uint8_t key;
  std::uint16_t space;
  std::uint8_t parts;
  Link more;
  std::uint8_t partly;
  std::uint8_t answers_head;
  std::uint16_t head_bytes;
};

/// Goes on with a draft. Where it stands is a local variable's and no member's: for all the
/// compiler knows, each byte that is written could change that.
class ScriptCall::Pen {
 public:
  explicit Pen(Draft& draft) : draft_(draft), at_(draft.end) {}
  ~Pen() { draft_.end = at_; }
  Pen(const Pen&) = delete;
  Pen& operator=(const Pen&) = delete;

  void put(std::string_view bytes) {
    if (bytes.empty()) return;  // They may be nowhere.
    std::memcpy(at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  /// A plain value, as the script unpacks it. Returns where it stands.
  template <class T>
  char* put_value(const T& value) {
    char* const at = std::exchange(at_, at_ + sizeof value);
    std::memcpy(at, &value, sizeof value);
    return at;
  }
  /// The last so many bytes once more. Returns where they stand.
  char* repeat(std::size_t bytes) {
    char* const at = std::exchange(at_, at_ + bytes);
    std::memcpy(at, at - bytes, bytes);
    return at;
  }
  /// "<type><length>\r\n".
  void put_length(char type, std::size_t length) {
    put_value(type);
    at_ = std::to_chars(at_, at_ + 20, length).ptr;
    put("\r\n");
  }
  void put_question(const PartQuestion& question) {
    put_value(question.kind);
    put_value(question.a);
    put_value(question.b);
    put_value(question.c);
    put_value(question.d);
    if (question.step_ns != 0) put_value(question.step_ns);
  }

 private:
  Draft& draft_;
  char* at_;
};

ScriptCall::ScriptCall(const CallOptions& options) : options_(options), asked_(kMaxRequests) {
  units_.reserve(kMaxRequests);
  clear();
}

void ScriptCall::clear() {
  units_.clear();
  asked_count_ = 0;
  faults_.clear();
  bytes_ = kCommandBytes;
}

bool ScriptCall::add(std::span<const Request> requests, Decision& decision) {
  const std::size_t first = asked_count_;
  const std::size_t bytes_before = bytes_;
  bool halves = false;
  for (const Request& request : requests) {
    halves = request.operation == Operation::kTakeUpTo && !lends(*request.limit);
    if (!(halves ? add_halves(request) : add_asked(request, request.cost))) {
      asked_count_ = first;
      bytes_ = bytes_before;
      return false;
    }
  }
  units_.push_back({.first = static_cast<std::uint16_t>(first),
                    .count = static_cast<std::uint16_t>(asked_count_ - first),
                    .halves = halves,
                    .decision = &decision});
  return true;
}

bool ScriptCall::add_asked(const Request& request, std::int64_t cost, bool named) {
  const RedisSpace& space = space_of(request);
  const std::size_t key_bytes = encoded_bytes(request.key);
  std::size_t bytes = kRequestBytes + (request.limit->parts.size() + 1) * kPartBytes;
  if (!named) bytes += space.arguments().size() + space.front().size() + key_bytes;
  if (asked_count_ == kMaxRequests || bytes_ + bytes > kMaxBytes) return false;
  bytes_ += bytes;
  Asked& asked = asked_[asked_count_++];
  asked.request = &request;
  asked.cost = cost;
  asked.key_bytes = static_cast<std::uint32_t>(key_bytes);
  return true;
}

// The larger half, then the larger half of what is left, and so on: each is at most one more than
// all that follow, so that taking each that fits takes as much as there is. Kept apart: add() would
// save registers for it that most requests have no use for.
[[gnu::noinline]] bool ScriptCall::add_halves(const Request& request) {
  std::int64_t left = most_to_take(request);
  bool named = false;
  do {
    const std::int64_t half = left - left / 2;
    if (!add_asked(request, half, named)) return false;
    left -= half;
    named = true;
  } while (left > 0);
  return true;
}

void ScriptCall::abandon(std::size_t i) {
  units_[i].decision = nullptr;
}

std::string_view ScriptCall::fault(std::size_t i) const {
  const Unit& unit = units_[i];
  return std::string_view(faults_).substr(unit.fault_at, unit.fault_bytes);
}

void ScriptCall::write(Instant now_or_store_time, std::uint32_t number, std::string& output) {
  number_ = number;
  keys_.begin(bytes_);
  questions_.begin(bytes_);
  key_owners_.clear();
  key_places_.fill(0);
  spaces_.clear();
  last_space_ = nullptr;
  last_asked_ = nullptr;
  whole_ = true;

  // By the server's clock, windows are named by this one's and mended there.
  const bool given = now_or_store_time != kStoreTime;
  const Instant near = given ? now_or_store_time : wall_now();
  char* const whole = begin_questions(given || options_.client_time ? near : kStoreTime);
  for (Unit& unit : units_) {
    unit.written = unit.decision != nullptr;
    if (!unit.written) continue;
    const auto asked = std::span(asked_).subspan(unit.first, unit.count);
    for (Asked& one : asked) {
      const bool goes_on = unit.halves && &one != &asked.front();
      const bool has_more = !unit.halves && &one != &asked.back();
      write_request(one, goes_on ? Link::kGoesOn : has_more ? Link::kMore : Link::kNone, near);
    }
  }
  *whole = whole_ && !key_owners_.empty() ? 1 : 0;

  append_length(output, '*', 4 + key_owners_.size() + RedisSpace::kArguments * spaces_.size());
  output += "$7\r\nEVALSHA\r\n$40\r\n";
  output += script_sha();
  const std::string keys = std::to_string(key_owners_.size());
  output += "\r\n";
  append_length(output, '$', keys.size());
  output += keys;
  output += "\r\n";
  output += keys_.text();
  append_length(output, '$', questions_.text().size());
  output += questions_.text();
  output += "\r\n";
  for (const RedisSpace* space : spaces_) output += space->arguments();
}

// The place of what is not known before all requests are written: `whole_`.
char* ScriptCall::begin_questions(Instant now_or_store_time) {
  static_assert(kStoreTime == -1, "the script reads it as 2^64 - 1");
  Pen pen(questions_);
  pen.put_value(number_);
  pen.put_value(now_or_store_time);
  pen.put_value(static_cast<double>(options_.least_lifetime_ms));
  pen.put_value(static_cast<double>(options_.skew_ms));
  return pen.put_value(std::uint8_t{0});
}

// The key's place among the command's keys, from 1 on.
std::uint8_t ScriptCall::key_index(const Asked& asked) {
  const Request& request = *asked.request;
  const std::string& front = space_of(request).front();
  std::size_t place = XXH3_64bits(request.key.data(), request.key.size());
  while (true) {
    place %= key_places_.size();
    const std::uint8_t index = key_places_[place];
    if (index == 0) break;
    const Request& owner = *key_owners_[index - 1U];
    const bool same_space = owner.space == request.space || space_of(owner).front() == front;
    if (same_space && owner.key == request.key) return index;
    ++place;
  }
  key_owners_.push_back(&request);
  Pen pen(keys_);
  pen.put_length('$', front.size() + asked.key_bytes + 1);
  pen.put(front);
  if (asked.key_bytes == request.key.size()) {
    pen.put(request.key);
  } else {
    std::string encoded;
    append_encoded(encoded, request.key);
    pen.put(encoded);
  }
  pen.put("}\r\n");
  return key_places_[place] = static_cast<std::uint8_t>(key_owners_.size());
}

// Where the space's arguments begin in ARGV, after the questions.
std::uint16_t ScriptCall::space_place(const RedisSpace& space) {
  if (&space == last_space_) return last_place_;
  const auto known = std::find(spaces_.begin(), spaces_.end(), &space);
  const auto before = static_cast<std::size_t>(known - spaces_.begin());
  if (known == spaces_.end()) spaces_.push_back(&space);
  last_space_ = &space;
  last_place_ = static_cast<std::uint16_t>(2 + RedisSpace::kArguments * before);
  return last_place_;
}

// Whether all is asked as before, but of another key.
bool ScriptCall::is_like_last(const Asked& asked) const {
  if (last_asked_ == nullptr) return false;
  const Request& request = *asked.request;
  const Request& last = *last_asked_->request;
  return request.limit == last.limit && request.space == last.space &&
         request.operation == last.operation && asked.cost == last_asked_->cost &&
         request.patience_ns == last.patience_ns && request.duration_ns == last.duration_ns &&
         request.permit == last.permit;
}

void ScriptCall::write_request(Asked& asked, Link link, Instant near) {
  const RedisSpace& space = space_of(*asked.request);
  asked.head_bytes = space.answered_bytes();
  asked.summed = space.summed();
  const std::uint8_t key = key_index(asked);
  if (link == Link::kNone && is_like_last(asked)) {
    Pen(questions_).repeat(last_bytes_)[offsetof(Header, key)] = static_cast<char>(key);
    return;
  }
  const std::size_t before = questions_.text().size();
  write_question(asked, key, link, near);
  last_bytes_ = questions_.text().size() - before;
  last_asked_ = link == Link::kNone ? &asked : nullptr;
}

void ScriptCall::write_question(const Asked& asked, std::uint8_t key, Link link, Instant near) {
  const Request& request = *asked.request;
  const RedisSpace& space = space_of(request);
  const auto& parts = request.limit->parts;
  const bool blocks = request.operation == Operation::kBlock;
  const std::uint16_t place = space_place(space);

  const bool patient = request.operation == Operation::kTake;
  const PartCall call{.operation = request.operation,
                      .cost = asked.cost,
                      .patience_ns = patient ? request.patience_ns : kDefaultPatience,
                      .near = near,
                      .permit = request.permit};
  static_assert(sizeof(Header) == 10);
  Pen pen(questions_);
  char* const header =
      pen.put_value(Header{.operation = operation_code(request),
                           .key = key,
                           .space = place,
                           .parts = static_cast<std::uint8_t>(parts.size() + (blocks ? 1 : 0)),
                           .more = link,
                           .partly = false,
                           .answers_head = asked.head_bytes > 0,
                           .head_bytes = space.head_bytes()});
  std::int64_t slots = 0;
  for (const AnyPart& part : parts) {
    std::visit(
        [&]<class P>(const P& p) {
          const PartQuestion question = PartCodec<typename P::Algorithm>::ask(p.params, call);
          pen.put_question(question);
          slots += question.slots;
        },
        part);
  }
  if (blocks) pen.put_question(ask_block(request.duration_ns));
  if (slots > kMostWholeSlots) {
    header[offsetof(Header, partly)] = 1;
    whole_ = false;
  }
}

}  // namespace sluice::redis
