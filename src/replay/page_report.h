#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "replay/charts.h"
#include "replay/report.h"
#include "replay/sweep.h"
#include "replay/tally.h"

namespace sluice::replay {

/// What the HTML report shows.
struct PageContents {
  const Tally& tally;
  const Charts& charts;
  const Sweep& sweep;
  const LogSummary& log;
  /// The command that made the report: see command_line().
  std::string command;
};

/// The keys of each limit that the page lists, each with its timeline.
inline constexpr std::size_t kMostDeniedOnPage = 50;

/// The most bytes of a page, and the columns of a key in it.
inline constexpr std::size_t kMaxPageBytes = 1'000'000;
inline constexpr std::size_t kPageKeyColumns = 80;

/// The report as one HTML file that loads no other, with its contents as JSON. It has at most
/// kMaxPageBytes: to need less room, the steps of all timelines are widened. The member "report" is
/// what json_report() writes, with more keys, and with keys made safe for a terminal and cut.
std::string page_report(const PageContents& contents);

}  // namespace sluice::replay
