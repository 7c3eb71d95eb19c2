#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/instant.h"

namespace sluice::replay {

/// These read a number as text, exactly: digits only, no sign, no exponent, no spaces around it.
/// False, and a `reason` fit for a terminal, where the text is anything else or out of range.

/// Decimal seconds since the epoch, up to 9 decimals, below 2^62 ns: "1431857103.25".
bool read_seconds(std::string_view text, Instant& time_ns, std::string& reason);

/// Nanoseconds since the epoch, below 2^62.
bool read_nanoseconds(std::string_view text, Instant& time_ns, std::string& reason);

/// 0 to kMaxCount.
bool read_cost(std::string_view text, std::int64_t& cost, std::string& reason);

}  // namespace sluice::replay
