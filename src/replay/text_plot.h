#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/instant.h"
#include "replay/charts.h"

namespace sluice::replay {

/// Counts over time: one for each column of a plot, all columns of one width.
struct PlotColumns {
  /// The start of the first column.
  Instant first_ns = 0;
  std::int64_t width_ns = 1;
  std::vector<std::uint64_t> counts;
};

/// The most columns of a plot.
inline constexpr std::size_t kPlotColumns = 80;

/// The requests that one limit denied, in at most kPlotColumns columns from the first request to
/// the last; none if there was no request.
PlotColumns denied_over_time(const Charts& charts, std::size_t limit);

/// Draws the counts as bars in a few lines of at most 100 columns, with axes. `title` is shown as
/// it is. With `is_coloured` the title is bold and the bars are red.
std::string text_plot(const std::string& title, const PlotColumns& columns, bool is_coloured);

}  // namespace sluice::replay
