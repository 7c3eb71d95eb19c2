#include "load/tape.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <optional>

namespace sluice::bench {
namespace {

/// A random tape repeats after this many requests.
constexpr std::size_t kLongestRandomTape = std::size_t{1} << 21;
/// One of so many keys by Zipf's law is new.
constexpr std::uint64_t kZipfNewOneIn = 10;

void append_bulk(std::string* bytes, std::string_view text) {
  *bytes += '$';
  *bytes += std::to_string(text.size());
  *bytes += "\r\n";
  *bytes += text;
  *bytes += "\r\n";
}

std::string expression_of(const LimitNumbers& limit) {
  return "token_bucket " + std::to_string(limit.count) + "/" + std::to_string(limit.period_s) +
         "s burst=" + std::to_string(limit.burst + 1);
}

/// The request's text before and after its key.
struct Frame {
  std::string before_key;
  std::string after_key;
};

void append_numbers(std::string* bytes, const LimitNumbers& limit) {
  append_bulk(bytes, std::to_string(limit.burst));
  append_bulk(bytes, std::to_string(limit.count));
  append_bulk(bytes, std::to_string(limit.period_s));
}

Frame make_frame(const LoadOptions& options, const LimitNumbers& limit) {
  Frame frame;
  switch (options.command) {
    case Command::kPing:
      frame.before_key = "*1\r\n";
      append_bulk(&frame.before_key, "PING");
      break;
    case Command::kThrottle:
      frame.before_key = "*5\r\n";
      append_bulk(&frame.before_key, "CL.THROTTLE");
      append_numbers(&frame.after_key, limit);
      break;
    case Command::kCheck:
    case Command::kNewLimit:
      frame.before_key = "*3\r\n";
      append_bulk(&frame.before_key, "SLUICE.CHECK");
      append_bulk(&frame.before_key, expression_of(limit));
      break;
    case Command::kEvalsha:
      frame.before_key = options.caller_clock ? "*8\r\n" : "*7\r\n";
      append_bulk(&frame.before_key, "EVALSHA");
      append_bulk(&frame.before_key, options.sha);
      append_bulk(&frame.before_key, "1");
      append_numbers(&frame.after_key, limit);
      if (options.caller_clock) append_bulk(&frame.after_key, std::to_string(options.now_us));
      break;
  }
  return frame;
}

/// SplitMix64: every seed gives a full-period sequence, and the same one on every machine.
class Random {
 public:
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  /// From 0 to 1.
  double share() { return std::ldexp(static_cast<double>(next() >> 11), -53); }

 private:
  std::uint64_t state_ = 1;
};

/// The number of the key of request `i`; nothing if the key is new.
std::optional<std::uint64_t> draw(const LoadOptions& options, std::size_t i, Random* random) {
  switch (options.order) {
    case Order::kInOrder:
      return i;
    case Order::kNew:
      return std::nullopt;
    case Order::kZipf: {
      if (random->next() % kZipfNewOneIn == 0) return std::nullopt;
      // Rank r has a probability of about 1/r: the logarithm of the rank is uniform.
      const double scale = std::log(static_cast<double>(options.keys));
      return static_cast<std::uint64_t>(std::exp(random->share() * scale)) - 1;
    }
    case Order::kRandom:
      break;
  }
  return random->next() % options.keys;
}

std::size_t count_requests(const LoadOptions& options) {
  // So that no request is written again while it is being sent.
  const std::size_t least = std::max(kMostPipelined, 2 * options.connections * options.pipeline);
  if (options.command == Command::kPing || options.order == Order::kNew) return least;
  if (options.order == Order::kInOrder) return options.keys;
  return std::max(least, std::min(2 * options.keys, kLongestRandomTape));
}

}  // namespace

Tape::Tape(const LoadOptions& options) {
  const std::string first_new = std::to_string(kFirstNew);
  LimitNumbers limit = options.limit;
  if (options.command == Command::kNewLimit) limit.burst = kFirstNew - 1;
  const Frame frame = make_frame(options, limit);
  const Frame other = make_frame(options, options.other_limit.value_or(limit));
  const std::size_t count = count_requests(options);
  bytes_.reserve(count * (frame.before_key.size() + frame.after_key.size() + 24));
  ends_.reserve(count);
  Random random;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = bytes_.size();
    const auto number = draw(options, i, &random);
    const Frame& its = number.value_or(i) % 2 == 0 ? frame : other;
    bytes_ += its.before_key;
    if (options.command != Command::kPing) {
      append_bulk(&bytes_, number ? "key:" + std::to_string(*number) : "new:" + first_new);
    }
    bytes_ += its.after_key;
    ends_.push_back(bytes_.size());
    if (options.command == Command::kNewLimit || !number) {
      new_at_.resize(count);
      new_at_[i] = bytes_.find(first_new, begin);
    }
  }
}

Tape::Slice Tape::next(std::size_t most) {
  assert(most >= 1);
  const std::size_t first = cursor_;
  const std::size_t last = std::min(first + most, ends_.size());
  cursor_ = last == ends_.size() ? 0 : last;
  if (!new_at_.empty()) {
    for (std::size_t i = first; i < last; ++i) write_new_number(new_at_[i]);
  }
  const std::uint64_t begin = first == 0 ? 0 : ends_[first - 1];
  const std::string_view all = bytes_;
  return {.bytes = all.substr(begin, ends_[last - 1] - begin), .requests = last - first};
}

void Tape::write_new_number(std::uint64_t at) {
  if (at == 0) return;
  char* const begin = bytes_.data() + at;
  std::to_chars(begin, begin + kNewDigits, next_new_++);
}

}  // namespace sluice::bench
