#include "advise/words.h"

#include "replay/text.h"

namespace sluice::advise {

std::string duration_text(std::int64_t ns) {
  struct Unit {
    std::int64_t ns;
    std::string_view name;
  };
  constexpr Unit kUnits[] = {{86'400'000'000'000, " d"},
                             {3'600'000'000'000, " h"},
                             {60'000'000'000, " min"},
                             {1'000'000'000, " s"}};
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
