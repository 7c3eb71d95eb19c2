#pragma once

#include <cstdint>
#include <string>

#include "replay/tally.h"

namespace sluice::replay {

/// What a report says besides the counts.
struct ReportContext {
  /// The key template, as given or by default; empty if no line was ever read.
  std::string key;
  std::uint64_t unreadable = 0;
};

/// The summary for people: at most 100 columns, keys made fit for a terminal. With `is_coloured`
/// titles are bold and denials red.
std::string table_report(const Summary& summary, const ReportContext& context, bool is_coloured);

/// The summary for programs: one JSON object, its fields always in the same order, and a line end.
std::string json_report(const Summary& summary, const ReportContext& context);

}  // namespace sluice::replay
