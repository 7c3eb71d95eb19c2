#include "advise/words.h"

#include "core/instant.h"
#include "replay/text.h"

namespace sluice::advise {

std::string duration_text(std::int64_t ns) {
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

std::string count_of(std::uint64_t count, std::string_view thing) {
  return replay::grouped(count) + ' ' + std::string(thing) + (count == 1 ? "" : "s");
}

}  // namespace sluice::advise
