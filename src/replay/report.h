#pragma once

#include <string>

#include "replay/json_writer.h"
#include "replay/log.h"
#include "replay/tally.h"

namespace sluice::replay {

/// The first lines of a text for people: what was read, of how many keys (" of 3 keys", or
/// nothing), the template of the keys, and how many lines could not be read.
std::string heading(const LogSummary& log, const std::string& of_keys);

/// The summary for people: at most 100 columns, with keys made safe for a terminal. With
/// `is_coloured` titles are bold and denials red.
std::string table_report(const Summary& summary, const LogSummary& log, bool is_coloured);

/// The summary for programs: one JSON object, its fields always in the same order, and a line end.
std::string json_report(const Summary& summary, const LogSummary& log);

/// Writes the members that say what was read, from "key" to "last_ns".
void write_log(JsonWriter& json, const LogSummary& log);

/// Writes the member "most_denied": a limit's most denied keys.
void write_most_denied(JsonWriter& json, const LimitSummary& limit);

/// Writes the object of json_report() as one value.
void write_report(JsonWriter& json, const Summary& summary, const LogSummary& log);

}  // namespace sluice::replay
