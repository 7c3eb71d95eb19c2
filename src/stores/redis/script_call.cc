#include "stores/redis/script_call.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "core/together.h"
#include "stores/redis/part_codec.h"
#include "stores/redis/redis_key.h"
#include "stores/redis/script.h"

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

std::uint8_t operation_code(const Request& request) {
  if (request.operation == Operation::kReset) return 4;
  if (request.cost == 0) return 3;
  return request.operation == Operation::kRefund ? 2 : 1;
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
  if (requests.size() > kMaxRequests - asked_.size()) return false;
  const std::size_t first = asked_.size();
  std::size_t bytes = 0;
  for (const Request& request : requests) {
    const RedisSpace& space = space_of(request);
    const std::size_t key_bytes = encoded_bytes(request.key);
    bytes += kRequestBytes + request.limit->parts.size() * kPartBytes + space.arguments().size() +
             space.front().size() + key_bytes;
    if (bytes_ + bytes > kMaxBytes) {
      asked_.resize(first);
      return false;
    }
    asked_.push_back({.request = &request, .key_bytes = static_cast<std::uint32_t>(key_bytes)});
  }
  bytes_ += bytes;
  units_.push_back({.first = static_cast<std::uint16_t>(first),
                    .count = static_cast<std::uint16_t>(requests.size()),
                    .decision = &decision});
  return true;
}

void ScriptCall::abandon(std::size_t i) {
  units_[i].decision = nullptr;
}

std::string_view ScriptCall::fault(std::size_t i) const {
  const Unit& unit = units_[i];
  return std::string_view(faults_).substr(unit.fault_at, unit.fault_bytes);
}

void ScriptCall::write(Instant now_or_store_time, std::string& output) {
  keys_.begin(bytes_);
  questions_.begin(bytes_);
  key_owners_.clear();
  key_places_.fill(0);
  spaces_.clear();
  whole_ = true;

  // By the server's clock, windows are named by this one's and mended there.
  const bool given = now_or_store_time != kStoreTime;
  const Instant near = given ? now_or_store_time
                             : std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count();
  questions_.put_value(given ? as_word(now_or_store_time) : ~std::uint64_t{0});
  questions_.put_value(static_cast<double>(options_.least_lifetime_ms));
  questions_.put_value(static_cast<double>(options_.skew_ms));
  char* const whole = questions_.skip(1);
  for (Unit& unit : units_) {
    unit.written = unit.decision != nullptr;
    if (!unit.written) continue;
    for (std::size_t i = 0; i < unit.count; ++i) {
      write_request(asked_[unit.first + i], i + 1 < unit.count, near);
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
  std::size_t place = std::hash<std::string_view>{}(request.key);
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
  asked.head_bytes = 0;
  asked.rings = static_cast<std::uint16_t>(space.rings());
  if (space.rings() < parts.size()) {
    asked.head_bytes = static_cast<std::uint16_t>(space.head_bytes());
  }

  const std::uint8_t key = key_index(asked);
  const auto place = static_cast<std::uint16_t>(space_index(space));
  char* const header = questions_.skip(kHeaderBytes);
  std::int64_t slots = 0;
  for (const AnyPart& part : parts) {
    const PartQuestion question =
        ask_part(part, {request.operation, request.cost, request.patience_ns, near});
    slots += question.slots;
    questions_.put_value(question.kind);
    questions_.put_value(question.a);
    questions_.put_value(question.b);
    questions_.put_value(question.c);
    questions_.put_value(question.d);
    if (question.step_ns != 0) questions_.put_value(question.step_ns);
  }
  const bool partly = slots > kMostWholeSlots;
  whole_ = whole_ && !partly;
  auto fill = [at = header](auto value) mutable {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  };
  fill(operation_code(request));
  fill(key);
  fill(place);
  fill(static_cast<std::uint8_t>(parts.size()));
  fill(static_cast<std::uint8_t>(more ? 1 : 0));
  fill(static_cast<std::uint8_t>(partly ? 1 : 0));
  fill(static_cast<std::uint8_t>(asked.head_bytes > 0 ? 1 : 0));
  fill(static_cast<std::uint16_t>(space.head_bytes()));
}

}  // namespace sluice::redis
