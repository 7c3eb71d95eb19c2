#include "memory/filled_store.h"

#include <malloc.h>

#include <algorithm>
#include <stdexcept>

namespace sluice::bench {

FilledStore::FilledStore(const KeyArray& keys) {
  // Returns freed memory to the kernel; if the store reused it, the process would not grow.
  malloc_trim(0);
  const Resident before = read_resident();
  store_ = open_bare_store("memory:?max_bytes=8000000000");
  space_ = store_->open_space(limit_.definition());
  hot_space_ = store_->open_space(hot_limit_.definition());
  for (Request& request : requests_) {
    request.limit = &limit_.definition();
    request.space = space_.get();
  }
  hot_request_.limit = &hot_limit_.definition();
  hot_request_.space = hot_space_.get();
  hot_request_.key = "hot";
  const Instant now = store_->now();
  const std::size_t often = std::max<std::size_t>(1, keys.size() / kGrowthSamples);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    decide(keys.at(i), now);
    // A new key has all units but one left; anything else would invalidate the benchmark.
    if (!decisions_[0].allowed || decisions_[0].remaining != kBurst - 1) {
      throw std::runtime_error("the store does not keep a state of its own for each key");
    }
    const std::size_t count = i + 1;
    if (count % often != 0 || 10 * count < keys.size()) continue;
    const auto grown = static_cast<double>(read_resident().bytes - before.bytes);
    most_bytes_per_key_ = std::max(most_bytes_per_key_, grown / static_cast<double>(count));
  }
  const Resident after = read_resident();
  growth_ = {.bytes = after.bytes - before.bytes,
             .huge_bytes = after.huge_bytes - before.huge_bytes};
}

}  // namespace sluice::bench
