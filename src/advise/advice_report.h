#pragma once

#include <string>
#include <string_view>

#include "advise/advice.h"

namespace sluice::advise {

/// The advice for people: at most 100 columns, with what comes from the data made safe for a
/// terminal. `replay` is the command that replays the same files, to which a --limit is added: see
/// replay::command_line(). With `is_coloured` titles are bold.
std::string advice_text(const Advice& advice, std::string_view replay, bool is_coloured);

/// The advice for programs: one JSON object, its fields always in the same order, and a line end.
std::string advice_json(const Advice& advice);

}  // namespace sluice::advise
