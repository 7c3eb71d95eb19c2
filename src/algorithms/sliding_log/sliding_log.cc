#include "algorithms/sliding_log/sliding_log.h"

namespace sluice {

SlidingLog::Params SlidingLog::define(PartSyntax& syntax) {
  syntax.finish();
  if (syntax.count() > kMaxLimit) {
    syntax.fail_count("sliding_log keeps every admitted instant, so its limit is at most " +
                      std::to_string(kMaxLimit) + " (sliding_window has no such bound)");
  }
  return {.limit = syntax.count(), .window_ns = syntax.duration_ns()};
}

std::string SlidingLog::state_kind(const Params& params) {
  return std::string(kName) + ' ' + format_duration(params.window_ns);
}

std::string SlidingLog::describe(const Params& params) {
  return std::string(kName) + ' ' + std::to_string(params.limit) + '/' +
         format_duration(params.window_ns);
}

}  // namespace sluice
