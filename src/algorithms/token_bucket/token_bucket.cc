#include "algorithms/token_bucket/token_bucket.h"

namespace sluice {

TokenBucket::Params TokenBucket::define(PartSyntax& syntax) {
  const auto written = syntax.count_option("burst");
  const bool borrow = syntax.yes_no_option("borrow", false);
  syntax.finish();
  const std::int64_t burst = written.value_or(syntax.count());
  const auto bucket = bucket_params(syntax.count(), syntax.duration_ns(), burst);
  if (!bucket) {
    const std::string error = "a burst of " + std::to_string(burst) +
                              " takes more than 2^61 ns, about 73 years, to come back";
    if (written) syntax.fail_option("burst", error);
    syntax.fail_duration(error);
  }
  return {*bucket, borrow};
}

std::string TokenBucket::describe(const Params& params) {
  std::string text(kName);
  text += ' ' + std::to_string(params.count) + '/' + format_duration(params.period_ns);
  if (params.burst != params.count) text += " burst=" + std::to_string(params.burst);
  if (params.borrow) text += " borrow=yes";
  return text;
}

}  // namespace sluice
