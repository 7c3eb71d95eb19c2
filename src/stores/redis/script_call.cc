#include "stores/redis/script_call.h"

#include <algorithm>
#include <charconv>

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
constexpr std::size_t kHeaderBytes = 10;

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

PartQuestion ask_part(const AnyPart& part, const PartCall& call) {
  return std::visit(
      [&]<class P>(const P& p) { return PartCodec<typename P::Algorithm>::ask(p.params, call); },
      part);
}

}  // namespace

void ScriptCall::Draft::put_length(char type, std::size_t length) {
  *end_++ = type;
  end_ = std::to_chars(end_, end_ + 20, length).ptr;
  put("\r\n");
}

ScriptCall::ScriptCall(const CallOptions& options) : options_(options) {
  units_.reserve(kMaxRequests);
  asked_.reserve(kMaxRequests);
  clear();
}

void ScriptCall::clear() {
  units_.clear();
  asked_.clear();
  faults_.clear();
  bytes_ = kCommandBytes;
}

bool ScriptCall::add(std::span<const Request> requests, Decision& decision) {
  const std::size_t first = asked_.size();
  const std::size_t bytes_before = bytes_;
  bool halves = false;
  for (const Request& request : requests) {
    halves = request.operation == Operation::kTakeUpTo && !lends(*request.limit);
    if (!(halves ? add_halves(request) : add_asked(request, request.cost))) {
      asked_.resize(first);
      bytes_ = bytes_before;
      return false;
    }
  }
  units_.push_back({.first = static_cast<std::uint16_t>(first),
                    .count = static_cast<std::uint16_t>(asked_.size() - first),
                    .halves = halves,
                    .decision = &decision});
  return true;
}

bool ScriptCall::add_asked(const Request& request, std::int64_t cost, bool named) {
  const RedisSpace& space = space_of(request);
  const std::size_t key_bytes = encoded_bytes(request.key);
  std::size_t bytes = kRequestBytes + (request.limit->parts.size() + 1) * kPartBytes;
  if (!named) bytes += space.arguments().size() + space.front().size() + key_bytes;
  if (asked_.size() == kMaxRequests || bytes_ + bytes > kMaxBytes) return false;
  bytes_ += bytes;
  asked_.push_back(
      {.request = &request, .cost = cost, .key_bytes = static_cast<std::uint32_t>(key_bytes)});
  return true;
}

// The larger half, then the larger half of what is left, and so on: each is at most one more than
// all that follow, so that taking each that fits takes as much as there is.
bool ScriptCall::add_halves(const Request& request) {
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
  whole_ = true;

  // By the server's clock, windows are named by this one's and mended there.
  const bool given = now_or_store_time != kStoreTime;
  const Instant near = given ? now_or_store_time : wall_now();
  questions_.put_value(number);
  questions_.put_value(given || options_.client_time ? as_word(near) : ~std::uint64_t{0});
  questions_.put_value(static_cast<double>(options_.least_lifetime_ms));
  questions_.put_value(static_cast<double>(options_.skew_ms));
  char* const whole = questions_.skip(1);
  for (Unit& unit : units_) {
    unit.written = unit.decision != nullptr;
    if (!unit.written) continue;
    for (std::size_t i = 0; i < unit.count; ++i) {
      write_request(asked_[unit.first + i], !unit.halves && i + 1 < unit.count, near);
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
  keys_.put_length('$', front.size() + asked.key_bytes + 1);
  keys_.put(front);
  if (asked.key_bytes == request.key.size()) {
    keys_.put(request.key);
  } else {
    std::string encoded;
    append_encoded(encoded, request.key);
    keys_.put(encoded);
  }
  keys_.put("}\r\n");
  return key_places_[place] = static_cast<std::uint8_t>(key_owners_.size());
}

// Where the space's arguments begin in ARGV, after the questions.
std::size_t ScriptCall::space_index(const RedisSpace& space) {
  // Neighbours most often share it.
  auto known = std::find(spaces_.rbegin(), spaces_.rend(), &space);
  if (known == spaces_.rend()) {
    spaces_.push_back(&space);
    known = spaces_.rbegin();
  }
  const auto before = static_cast<std::size_t>(spaces_.rend() - known) - 1;
  return 2 + RedisSpace::kArguments * before;
}

void ScriptCall::write_request(Asked& asked, bool more, Instant near) {
  const Request& request = *asked.request;
  const RedisSpace& space = space_of(request);
  const auto& parts = request.limit->parts;
  const bool blocks = request.operation == Operation::kBlock;
  PartCall call{
      .operation = request.operation, .cost = asked.cost, .near = near, .permit = request.permit};
  if (request.operation == Operation::kTake) call.patience_ns = request.patience_ns;
  asked.head_bytes = 0;
  asked.summed = static_cast<std::uint16_t>(space.summed());
  if (space.summed() < parts.size()) {
    asked.head_bytes = static_cast<std::uint16_t>(space.head_bytes());
  }

  const std::uint8_t key = key_index(asked);
  const auto place = static_cast<std::uint16_t>(space_index(space));
  char* const header = questions_.skip(kHeaderBytes);
  std::int64_t slots = 0;
  const auto put = [&](const PartQuestion& question) {
    slots += question.slots;
    questions_.put_value(question.kind);
    questions_.put_value(question.a);
    questions_.put_value(question.b);
    questions_.put_value(question.c);
    questions_.put_value(question.d);
    if (question.step_ns != 0) questions_.put_value(question.step_ns);
  };
  for (const AnyPart& part : parts) put(ask_part(part, call));
  if (blocks) put(ask_block(request.duration_ns));
  const bool partly = slots > kMostWholeSlots;
  whole_ = whole_ && !partly;
  auto fill = [at = header](auto value) mutable {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  };
  fill(operation_code(request));
  fill(key);
  fill(place);
  fill(static_cast<std::uint8_t>(parts.size() + (blocks ? 1 : 0)));
  fill(static_cast<std::uint8_t>(more ? 1 : 0));
  fill(static_cast<std::uint8_t>(partly ? 1 : 0));
  fill(static_cast<std::uint8_t>(asked.head_bytes > 0 ? 1 : 0));
  fill(static_cast<std::uint16_t>(space.head_bytes()));
}

}  // namespace sluice::redis
