#include "algorithms/fixed_window/fixed_window.h"

namespace sluice {

FixedWindow::Params FixedWindow::define(PartSyntax& syntax) {
  const auto anchor = syntax.word_option("anchor", {"clock", "first"});
  syntax.finish();
  return {.limit = syntax.count(),
          .window = Divider(syntax.duration_ns()),
          .first = anchor.value_or(0) == 1};
}

std::string FixedWindow::state_kind(const Params& params) {
  return std::string(kName) + ' ' + format_duration(params.window_ns()) +
         (params.first ? " anchor=first" : "");
}

std::string FixedWindow::describe(const Params& params) {
  return std::string(kName) + ' ' + std::to_string(params.limit) + '/' +
         format_duration(params.window_ns()) + (params.first ? " anchor=first" : "");
}

}  // namespace sluice
