#include "load/tape.h"

#include <algorithm>
#include <cassert>

namespace sluice::bench {
namespace {

/// A random tape repeats after this many requests.
constexpr std::size_t kLongestRandomTape = std::size_t{1} << 21;

void append_bulk(std::string* bytes, std::string_view text) {
  *bytes += '$';
  *bytes += std::to_string(text.size());
  *bytes += "\r\n";
  *bytes += text;
  *bytes += "\r\n";
}

/// The request's text before and after its key.
struct Frame {
  std::string before_key;
  std::string after_key;
};

Frame make_frame(const LoadOptions& options) {
  Frame frame;
  if (options.command == Command::kPing) {
    frame.before_key = "*1\r\n";
    append_bulk(&frame.before_key, "PING");
    return frame;
  }
  if (options.command == Command::kThrottle) {
    frame.before_key = "*5\r\n";
    append_bulk(&frame.before_key, "CL.THROTTLE");
  } else {
    frame.before_key = options.caller_clock ? "*8\r\n" : "*7\r\n";
    append_bulk(&frame.before_key, "EVALSHA");
    append_bulk(&frame.before_key, options.sha);
    append_bulk(&frame.before_key, "1");
  }
  append_bulk(&frame.after_key, std::to_string(options.limit.burst));
  append_bulk(&frame.after_key, std::to_string(options.limit.count));
  append_bulk(&frame.after_key, std::to_string(options.limit.period_s));
  if (options.command == Command::kEvalsha && options.caller_clock) {
    append_bulk(&frame.after_key, std::to_string(options.now_us));
  }
  return frame;
}

/// SplitMix64: every seed gives a full-period sequence, and the same one on every machine.
std::uint64_t next_random(std::uint64_t* state) {
  std::uint64_t z = (*state += 0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace

Tape::Tape(const LoadOptions& options) {
  const Frame frame = make_frame(options);
  const bool keyed = options.command != Command::kPing;
  std::size_t count = std::max(kMostPipelined, options.pipeline);
  if (keyed && options.in_order) count = options.keys;
  if (keyed && !options.in_order)
    count = std::max(count, std::min(2 * options.keys, kLongestRandomTape));
  const std::size_t most_bytes = frame.before_key.size() + frame.after_key.size() + 24;
  bytes_.reserve(count * most_bytes);
  ends_.reserve(count);
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < count; ++i) {
    bytes_ += frame.before_key;
    if (keyed) {
      const std::uint64_t key = options.in_order ? i : next_random(&state) % options.keys;
      append_bulk(&bytes_, "key:" + std::to_string(key));
    }
    bytes_ += frame.after_key;
    ends_.push_back(bytes_.size());
  }
}

Tape::Slice Tape::next(std::size_t most) {
  assert(most >= 1);
  const std::size_t first = cursor_;
  const std::size_t last = std::min(first + most, ends_.size());
  cursor_ = last == ends_.size() ? 0 : last;
  const std::uint64_t begin = first == 0 ? 0 : ends_[first - 1];
  const std::string_view all = bytes_;
  return {.bytes = all.substr(begin, ends_[last - 1] - begin), .requests = last - first};
}

}  // namespace sluice::bench
