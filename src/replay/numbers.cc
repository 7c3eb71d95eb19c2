#include "replay/numbers.h"

#include <algorithm>
#include <charconv>

#include "core/ascii.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kMaxDecimals = 9;

std::string quoted(std::string_view name, std::string_view text) {
  return std::string(name) + " \"" + printable(text, kFieldColumns) + "\"";
}

enum class Digits : std::uint8_t { kFine, kNotDigits, kTooLarge };

/// Digits only, at least one.
Digits read_digits(std::string_view text, std::int64_t& number) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit)) return Digits::kNotDigits;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc() ? Digits::kFine : Digits::kTooLarge;
}

bool too_late(std::string_view name, std::string_view text, std::string_view unit,
              std::string& reason) {
  reason = quoted(name, text) + " in " + std::string(unit) +
           " since the epoch is not before 2^62 ns (the year 2116)";
  return false;
}

}  // namespace

bool read_seconds(std::string_view text, Instant& time_ns, std::string& reason) {
  const std::size_t point = text.find('.');
  const std::string_view decimals = point == std::string_view::npos ? "0" : text.substr(point + 1);
  std::int64_t seconds = 0;
  std::int64_t fraction = 0;
  const Digits whole = read_digits(text.substr(0, point), seconds);
  const Digits part = read_digits(decimals, fraction);
  if (whole == Digits::kNotDigits || part == Digits::kNotDigits) {
    reason = quoted("time", text) + " is not decimal seconds since the epoch";
    return false;
  }
  if (decimals.size() > kMaxDecimals) {
    reason = quoted("time", text) + " has more than 9 decimals";
    return false;
  }
  if (whole == Digits::kTooLarge || seconds > kEndOfTime / kSecondNs) {
    return too_late("time", text, "seconds", reason);
  }
  for (std::size_t i = decimals.size(); i < kMaxDecimals; ++i) fraction *= 10;
  time_ns = seconds * kSecondNs + fraction;
  return time_ns < kEndOfTime || too_late("time", text, "seconds", reason);
}

bool read_nanoseconds(std::string_view text, Instant& time_ns, std::string& reason) {
  const Digits digits = read_digits(text, time_ns);
  if (digits == Digits::kNotDigits) {
    reason = quoted("time_ns", text) + " is not nanoseconds since the epoch";
    return false;
  }
  if (digits == Digits::kTooLarge || time_ns >= kEndOfTime) {
    return too_late("time_ns", text, "nanoseconds", reason);
  }
  return true;
}

bool read_cost(std::string_view text, std::int64_t& cost, std::string& reason) {
  const Digits digits = read_digits(text, cost);
  if (digits == Digits::kFine && cost <= kMaxCount) return true;
  reason = quoted("cost", text) + " is not an integer from 0 to 2^53 - 1";
  return false;
}

}  // namespace sluice::replay
