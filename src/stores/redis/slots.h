#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::redis {

inline constexpr std::size_t kSlots = 16'384;

/// The slot of a key in a Redis Cluster: CRC16 (XMODEM) of what stands between the first "{" and
/// the next "}", or of the whole key where there is nothing between them, modulo 16384. Source: the
/// Redis Cluster specification.
std::uint16_t slot_of(std::string_view redis_key);

}  // namespace sluice::redis
