#include "replay/text.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <ctime>

#include "core/arithmetic.h"
#include "core/number_text.h"

namespace sluice::replay {
namespace {

std::size_t columns_of(std::string_view text) {
  const auto is_start = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_start));
}

}  // namespace

std::string padded_left(std::string_view text, std::size_t columns) {
  std::string out(columns - std::min(columns, columns_of(text)), ' ');
  return out.append(text);
}

std::string padded_right(std::string text, std::size_t columns) {
  text.append(columns - std::min(columns, columns_of(text)), ' ');
  return text;
}

std::string styled(const std::string& text, std::string_view style, bool is_coloured) {
  return is_coloured && !text.empty() ? std::string(style) + text + "\x1b[0m" : text;
}

std::string grouped(std::uint64_t number) {
  std::string out;
  append_number(out, number);
  for (std::size_t i = out.size(); i > 3; i -= 3) out.insert(i - 3, 1, ',');
  return out;
}

std::string count_of(std::uint64_t count, std::string_view thing) {
  return grouped(count) + ' ' + std::string(thing) + (count == 1 ? "" : "s");
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  assert(part <= whole);
  std::uint64_t tenths = 0;
  if (whole != 0) {
    const Uint128 scaled = Uint128{part} * 1000 + whole / 2;
    tenths = static_cast<std::uint64_t>(scaled / whole);
    // Do not round few denials to 0 %, nor few admissions to none.
    if (tenths == 0 && part > 0) return "<0.1 %";
    if (tenths == 1000 && part < whole) return ">99.9 %";
  }
  std::string out;
  append_number(out, tenths / 10);
  out += '.';
  append_number(out, tenths % 10);
  return out + " %";
}

std::string rough_duration(std::int64_t ns) {
  struct Unit {
    std::int64_t ns;
    std::string_view name;
  };
  constexpr Unit kUnits[] = {
      {kDayNs, " d"}, {kHourNs, " h"}, {kMinuteNs, " min"}, {kSecondNs, " s"}};
  std::string text;
  for (const Unit& unit : kUnits) {
    const bool is_second = !text.empty();
    const std::int64_t count = ns / unit.ns;
    ns %= unit.ns;
    if (count > 0) {
      text.append(is_second ? " " : "").append(std::to_string(count)).append(unit.name);
    }
    if (is_second) break;
  }
  return text.empty() ? "less than 1 s" : text;
}

std::string utc_second(Instant time_ns) {
  const auto seconds = static_cast<std::time_t>(time_ns / kSecondNs);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%F %T", &parts);
  return text.data();
}

}  // namespace sluice::replay
