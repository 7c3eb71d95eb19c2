#include "algorithms/leaky_bucket/leaky_bucket.h"

namespace sluice {

LeakyBucket::Params LeakyBucket::define(PartSyntax& syntax) {
  const auto queue = syntax.count_option("queue", 0);
  syntax.finish();
  if (!queue) syntax.fail_algorithm("leaky_bucket needs queue=N, how many may wait (0 for none)");
  if (*queue == kMaxCount) syntax.fail_option("queue", "a queue is at most 2^53 - 2");
  const auto bucket = bucket_params(syntax.count(), syntax.duration_ns(), *queue + 1);
  if (!bucket) {
    syntax.fail_option("queue", "a queue of " + std::to_string(*queue) +
                                    " takes more than 2^61 ns, about 73 years, to drain");
  }
  return *bucket;
}

std::string LeakyBucket::describe(const Params& params) {
  return std::string(kName) + ' ' + std::to_string(params.count) + '/' +
         format_duration(params.period_ns) + " queue=" + std::to_string(params.burst - 1);
}

}  // namespace sluice
