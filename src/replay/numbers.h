#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/instant.h"

namespace sluice::replay {

/// These functions parse a number exactly: only digits, without sign, exponent or spaces. If the
/// text is anything else or out of range, they return false and set `reason`, safe for a terminal.

/// Decimal seconds since the epoch, up to 9 decimals, below 2^62 ns: "1431857103.25".
bool read_seconds(std::string_view text, Instant& time_ns, std::string& reason);

/// Nanoseconds since the epoch, below 2^62.
bool read_nanoseconds(std::string_view text, Instant& time_ns, std::string& reason);

/// 0 to kMaxCount.
bool read_cost(std::string_view text, std::int64_t& cost, std::string& reason);

}  // namespace sluice::replay
