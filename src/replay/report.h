#pragma once

#include <cstdint>
#include <string>

#include "replay/json_writer.h"
#include "replay/tally.h"

namespace sluice::replay {

/// The contents of a report besides the counts.
struct ReportContext {
  /// The key template, as given or by default; empty if no line was read.
  std::string key;
  std::uint64_t unreadable = 0;
  /// How many requests came too late for their place in the order of time, and by how much at most.
  std::uint64_t late = 0;
  std::int64_t most_late_ns = 0;
};

/// The summary for people: at most 100 columns, with keys made safe for a terminal. With
/// `is_coloured` titles are bold and denials red.
std::string table_report(const Summary& summary, const ReportContext& context, bool is_coloured);

/// The summary for programs: one JSON object, its fields always in the same order, and a line end.
std::string json_report(const Summary& summary, const ReportContext& context);

/// Writes the member "most_denied": a limit's most denied keys.
void write_most_denied(JsonWriter& json, const LimitSummary& limit);

/// Writes the object of json_report() as one value.
void write_report(JsonWriter& json, const Summary& summary, const ReportContext& context);

}  // namespace sluice::replay
