#include "algorithms/sliding_window/sliding_window.h"

namespace sluice {
namespace {

std::int64_t default_precision(std::int64_t window_ns) {
  return ceil_divide(window_ns, 10);
}

}  // namespace

SlidingWindow::Params SlidingWindow::define(PartSyntax& syntax) {
  const std::int64_t window_ns = syntax.duration_ns();
  const std::int64_t precision_ns =
      syntax.duration_option("precision").value_or(default_precision(window_ns));
  const bool strict = syntax.yes_no_option("strict", true);
  syntax.finish();
  if (precision_ns > window_ns) {
    syntax.fail_option("precision",
                       "a precision is at most the window, " + format_duration(window_ns));
  }
  const std::int64_t sub_windows = ceil_divide(window_ns, precision_ns);
  if (sub_windows > kMaxSubWindows) {
    syntax.fail_option("precision", "a precision of " + format_duration(precision_ns) + " makes " +
                                        std::to_string(sub_windows) +
                                        " sub-windows of this window; at most " +
                                        std::to_string(kMaxSubWindows) + " can be kept");
  }
  // The product cannot overflow: it is at most the window, 2^61 ns, and two sub-windows. The check
  // below ensures that an instant plus it stays below 2^63.
  const std::int64_t lifetime_ns = (sub_windows + (strict ? 1 : 0)) * precision_ns;
  if (lifetime_ns > kEndOfTime) {
    syntax.fail_duration("a window and its sub-windows together are at most 2^62 ns");
  }
  return {.limit = syntax.count(),
          .window_ns = window_ns,
          .precision = Divider(precision_ns),
          .lifetime_ns = lifetime_ns,
          .strict = strict};
}

std::string SlidingWindow::state_kind(const Params& params) {
  return std::string(kName) + ' ' + format_duration(params.window_ns) +
         " precision=" + format_duration(params.precision_ns());
}

std::string SlidingWindow::describe(const Params& params) {
  std::string text(kName);
  text += ' ' + std::to_string(params.limit) + '/' + format_duration(params.window_ns);
  if (params.precision_ns() != default_precision(params.window_ns)) {
    text += " precision=" + format_duration(params.precision_ns());
  }
  if (!params.strict) text += " strict=no";
  return text;
}

}  // namespace sluice
