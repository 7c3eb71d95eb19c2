#include "replay/text_plot.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/arithmetic.h"
#include "core/limit_syntax.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kPlotRows = 6;
constexpr std::size_t kAxisColumns = 14;
constexpr std::uint64_t kEighths = 8;
constexpr std::array<std::string_view, kEighths + 1> kBlocks = {" ", "▁", "▂", "▃", "▄",
                                                                "▅", "▆", "▇", "█"};

/// A bar's height in eighths of a row. A count above 0 is visible.
std::uint64_t height_of(std::uint64_t count, std::uint64_t most) {
  const Uint128 scaled = Uint128{count} * kPlotRows * kEighths;
  const auto height = static_cast<std::uint64_t>(scaled / most);
  return count == 0 ? 0 : std::max<std::uint64_t>(1, height);
}

std::string bars_of_row(const PlotColumns& columns, std::uint64_t most, std::size_t row) {
  const std::uint64_t below = (kPlotRows - 1 - row) * kEighths;
  std::string bars;
  std::size_t end = 0;  // Spaces after the last bar are left out.
  for (const std::uint64_t count : columns.counts) {
    const std::uint64_t height = height_of(count, most);
    bars += kBlocks[height <= below ? 0 : std::min(kEighths, height - below)];
    if (height > below) end = bars.size();
  }
  bars.resize(end);
  return bars;
}

}  // namespace

PlotColumns denied_over_time(const Charts& charts, std::size_t limit) {
  const std::vector<StepCounts>& steps = charts.all().steps();
  if (steps.empty()) return {};
  const std::int64_t first = steps.front().step;
  const std::int64_t count = steps.back().step - first + 1;
  const std::int64_t joined = ceil_divide(count, static_cast<std::int64_t>(kPlotColumns));
  PlotColumns columns{.first_ns = first * charts.steps().width_ns(),
                      .width_ns = joined * charts.steps().width_ns(),
                      .counts = {}};
  columns.counts.resize(static_cast<std::size_t>(ceil_divide(count, joined)));
  for (const StepCounts& step : steps) {
    columns.counts[static_cast<std::size_t>((step.step - first) / joined)] += step.denied[limit];
  }
  return columns;
}

std::string text_plot(const std::string& title, const PlotColumns& columns, bool is_coloured) {
  std::string out = '\n' + styled(title, kBold, is_coloured) + '\n';
  if (columns.counts.empty()) return out + "  no requests\n";
  out += "  denied per " + format_duration(columns.width_ns) + '\n';
  const std::uint64_t most =
      std::max<std::uint64_t>(1, *std::max_element(columns.counts.begin(), columns.counts.end()));
  for (std::size_t row = 0; row < kPlotRows; ++row) {
    const std::string label = row == 0 ? grouped(most) : "";
    const std::string bars = bars_of_row(columns, most, row);
    out += padded_left(label, kAxisColumns) + " |" + styled(bars, kRed, is_coloured) + '\n';
  }
  const std::size_t width = columns.counts.size();
  out += padded_left("0", kAxisColumns) + " +" + std::string(width, '-') + '\n';
  const std::string from = utc_second(columns.first_ns);
  const auto past = static_cast<std::int64_t>(width) * columns.width_ns;
  const std::string until = utc_second(std::min(kEndOfTime - 1, columns.first_ns + past)) + " UTC";
  out += std::string(kAxisColumns + 2, ' ') + from;
  // Where the plot is too narrow for both, the end follows the start.
  const std::size_t room = width > from.size() + until.size() ? width - from.size() : 0;
  out += room > 0 ? padded_left(until, room) : " to " + until;
  return out + '\n';
}

}  // namespace sluice::replay
