#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/store.h"

namespace sluice::redis {

/// Where one limit's keys live in Redis, and how their values are laid out. Immutable.
class RedisSpace final : public Space {
 public:
  RedisSpace(std::string_view prefix, const LimitDefinition& limit);

  /// What the limit was made of when the space was opened.
  const std::vector<AnyPart>& parts() const { return parts_; }

  /// "prefix:space:{": key() and "}" follow.
  const std::string& front() const { return front_; }
  /// What the script is told of the space: three arguments, as RESP.
  const std::string& arguments() const { return arguments_; }
  static constexpr std::size_t kArguments = 3;

  /// The bytes of a value before its slots.
  std::uint16_t head_bytes() const { return head_bytes_; }
  /// Where the parts' states begin.
  std::uint16_t states_at() const { return states_at_; }
  /// How many parts are summed up by the script (kIsSummed).
  std::uint16_t summed() const { return summed_; }
  /// How much of the head an answer brings: nothing where all parts are summed up.
  std::uint16_t answered_bytes() const { return answered_bytes_; }

 private:
  std::vector<AnyPart> parts_;
  std::string front_;
  std::string arguments_;
  std::uint16_t head_bytes_ = 0;
  std::uint16_t states_at_ = 0;
  std::uint16_t summed_ = 0;
  std::uint16_t answered_bytes_ = 0;
};

/// Appends the name of a key. REQUIRES: the space is a RedisSpace.
void append_redis_key(std::string& output, const Space& space, std::string_view key);
std::string redis_key(const Space& space, std::string_view key);

}  // namespace sluice::redis
