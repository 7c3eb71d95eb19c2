#pragma once

#include <cstdint>
#include <string>

#include "advise/advice.h"

namespace sluice::advise {

/// The contents of a report besides the advice.
struct AdviceContext {
  /// The key template, as given or by default; empty if no line was read.
  std::string key;
  std::uint64_t unreadable = 0;
  /// The command that replays the same files, to which a --limit is added: see
  /// replay::command_line().
  std::string replay;
};

/// The advice for people: at most 100 columns, with what comes from the data made safe for a
/// terminal. With `is_coloured` titles are bold.
std::string advice_text(const Advice& advice, const AdviceContext& context, bool is_coloured);

/// What the data cannot tell, in full sentences; none if it has no requests.
std::vector<std::string> unknowns(const Advice& advice, const AdviceContext& context);

/// The advice for programs: one JSON object, its fields always in the same order, and a line end.
std::string advice_json(const Advice& advice, const AdviceContext& context);

}  // namespace sluice::advise
