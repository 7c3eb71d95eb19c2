#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// Values of HTTP fields as RFC 9651 (Structured Field Values for HTTP) writes them.

/// A String: in quotes, with `"` and `\` escaped. Throws std::invalid_argument if a byte is not
/// printable ASCII (0x20 to 0x7E), since a String cannot hold it.
std::string structured_string(std::string_view text);

/// An Integer. Those above 999,999,999,999,999, the largest there is, are written as that.
/// REQUIRES: value >= 0.
std::string structured_integer(std::int64_t value);

/// The largest Integer.
inline constexpr std::int64_t kMaxStructuredInteger = 999'999'999'999'999;

}  // namespace sluice
