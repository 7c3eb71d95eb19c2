#include "memory/filled_store.h"

#include <malloc.h>

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
  for (std::size_t i = 0; i < keys.size(); ++i) {
    decide(keys.at(i), now);
    // A new key has all units but one left; anything else would invalidate the benchmark.
    if (!decisions_[0].allowed || decisions_[0].remaining != kBurst - 1) {
      throw std::runtime_error("the store does not keep a state of its own for each key");
    }
  }
  const Resident after = read_resident();
  growth_ = {.bytes = after.bytes - before.bytes,
             .huge_bytes = after.huge_bytes - before.huge_bytes};
}

}  // namespace sluice::bench
