#pragma once

#include <cstddef>
#include <cstdint>

#include "core/block.h"
#include "core/store.h"
#include "core/together.h"
#include "stores/redis/part_codec.h"
#include "stores/redis/redis_space.h"

namespace sluice::redis {

/// What the script answered to one request, how far its parts have been read, and the decision that
/// follows from it by the same transitions as in memory. script.lua says how an answer is written.
/// Not thread-safe.
struct Answer {
  // The bits of the first byte.
  static constexpr unsigned kAdmitted = 1;
  static constexpr unsigned kKnown = 2;
  static constexpr unsigned kFailed = 4;  // alone
  static constexpr unsigned kBlocked = 8;

  static constexpr bool is_admitted(char first) {
    return (static_cast<unsigned char>(first) & kAdmitted) != 0;
  }

  const Request& request;
  std::int64_t cost = 0;
  std::int64_t taken = 0;  // by the same request before
  Instant now = 0;
  const char* state = nullptr;  // of the next part in the head; null where the key is fresh
  const char* sum = nullptr;    // of the next ring, or of the permits
  Instant until = 0;            // when the key's block ends; 0 where there is none
  bool admitted = false;        // the script's verdict
  bool retract = false;         // nothing is charged: what would be admitted stands as peeked at

  /// Reads it off the front; false where it makes no sense. REQUIRES: it is there.
  bool read(const char*& at, std::size_t head_bytes, std::size_t summed) {
    const auto flags = static_cast<unsigned char>(*at++);
    if ((flags & kBlocked) != 0) {
      until = read_int64(at);
      at += sizeof until;
      if (until <= now) return false;
    }
    if ((flags & kKnown) != 0) {
      const auto& space = static_cast<const RedisSpace&>(*request.space);
      state = head_bytes > 0 ? at + space.states_at() : at;
      sum = at + head_bytes;
      at = sum + summed * kSumBytes;
    }
    if (request.operation == Operation::kReset) until = 0;
    if (request.operation == Operation::kBlock) {
      until = block_until(until, now, request.duration_ns);
    }
    return true;
  }
  /// The decision of one of the limit's parts, each asked for once and in their order. False where
  /// the state that was given is none.
  bool judge(const AnyPart& part, Decision& decision);
  /// Adds the decisions of all parts and of the block. False as above.
  bool judge(Together& together);
};

}  // namespace sluice::redis
