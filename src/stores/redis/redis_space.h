#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/store.h"

namespace sluice::redis {

/// Names of keys in Redis are "prefix:space:{key}". What stands in the braces alone chooses a
/// cluster's slot, so '{', '}' and '%' of the three names are written as "%7B", "%7D" and "%25";
/// all other bytes stay as they are. The empty key is written as "%": if there were nothing in the
/// braces, the whole name would choose the slot.
void append_encoded(std::string& output, std::string_view name);

/// Where one limit's keys live in Redis, and how their values are laid out. Immutable.
class RedisSpace final : public Space {
 public:
  RedisSpace(std::string_view prefix, const LimitDefinition& limit);

  /// The limit's parts when the space was opened.
  const std::vector<AnyPart>& parts() const { return parts_; }

  /// Sets `name` to the name of a key.
  void name_of(std::string_view key, std::string& name) const;
  /// The script's arguments that describe the space: see script.lua.
  static constexpr std::size_t kArguments = 3;
  const std::array<std::string, kArguments>& arguments() const { return arguments_; }

  /// The bytes of a value before its slots.
  std::uint16_t head_bytes() const { return head_bytes_; }
  /// The bytes of the summaries of the parts that the script sums up (kIsSummed).
  std::size_t summary_bytes() const { return summary_bytes_; }

  /// Where a part's state begins in the head, and its summary in the summaries.
  struct PartPlace {
    std::size_t state = 0;
    std::size_t summary = 0;
  };
  const PartPlace& place(std::size_t part) const { return places_[part]; }

 private:
  std::vector<AnyPart> parts_;
  std::string front_;  // "prefix:space:{"
  std::array<std::string, kArguments> arguments_;
  std::uint16_t head_bytes_ = 0;
  std::size_t summary_bytes_ = 0;
  std::vector<PartPlace> places_;
};

/// The name of a key. REQUIRES: the space is a RedisSpace.
std::string redis_key(const Space& space, std::string_view key);

/// The names of the requests' keys, for an error: on one line, in quotes, long ones cut.
std::string names_of(std::span<const Request> requests);

/// The slot of a key in a Redis Cluster: CRC16 (XMODEM) of what stands between the first "{" and
/// the next "}", or of the whole key where there is nothing between them, modulo kSlots. Source:
/// the Redis Cluster specification.
std::uint16_t slot_of(std::string_view redis_key);

}  // namespace sluice::redis
