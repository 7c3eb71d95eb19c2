#include "memory/changing_store.h"

#include <malloc.h>

#include <cassert>
#include <cmath>
#include <random>

#include "memory/resident.h"
#include "stores/stores.h"

namespace sluice::bench {

ChangingStore::ChangingStore(std::size_t lifetime)
    : limit_("token_bucket 1/" + std::to_string(static_cast<std::int64_t>(lifetime) * kStepNs) +
             "ns burst=1000000"),
      store_(open_bare_store("memory:?max_bytes=8000000000")),
      space_(store_->open_space(limit_.definition())),
      now_(store_->now()) {
  for (Request& request : requests_) {
    request.limit = &limit_.definition();
    request.space = space_.get();
  }
}

double share_of_memory_left(const KeyArray& keys) {
  malloc_trim(0);  // As in FilledStore.
  const std::size_t empty = read_resident().bytes;
  const auto store = open_bare_store("memory:?max_bytes=8000000000");
  const Limit soon_fresh("token_bucket 1/1s");
  const Limit live("token_bucket 1/1h burst=100000");
  const auto soon_space = store->open_space(soon_fresh.definition());
  const auto live_space = store->open_space(live.definition());
  const Request soon_request{.limit = &soon_fresh.definition(), .space = soon_space.get()};
  const Request live_request{.limit = &live.definition(), .space = live_space.get()};
  std::array<Request, kBatch> requests;
  std::array<Decision, kBatch> decisions;
  Instant now = store->now();
  const std::size_t many = keys.size() / kBatch * kBatch;
  for (std::size_t i = 0; i < many; ++i) {
    requests[i % kBatch] = i % 10 == 0 ? live_request : soon_request;
    requests[i % kBatch].key = keys.at(i);
    if (i % kBatch == kBatch - 1) store->decide(requests, now, decisions);
  }
  const std::size_t filled = read_resident().bytes;
  constexpr std::int64_t kDecisions = 6'000'000;
  std::size_t key = 0;
  for (std::int64_t i = 0; i < kDecisions / static_cast<std::int64_t>(kBatch); ++i) {
    for (Request& request : requests) {
      request = live_request;
      request.key = keys.at(key);
      key = key + 10 < many ? key + 10 : 0;
    }
    now += kBatch * (kSecondNs / 100'000);
    store->decide(requests, now, decisions);
  }
  return static_cast<double>(read_resident().bytes - empty) / static_cast<double>(filled - empty);
}

ZipfStream::ZipfStream(const KeyArray& keys, std::size_t known)
    : keys_(keys), known_(known), new_(known) {
  assert(known >= 1 && known < keys.size());
  constexpr std::size_t kPicks = 4'000'000;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform;
  const double scale = std::log(static_cast<double>(known));
  for (std::size_t i = 0; i < kPicks; ++i) {
    // Rank r has a probability of about 1/r: the logarithm of the rank is uniform.
    const auto rank = static_cast<std::uint32_t>(std::exp(uniform(random) * scale)) - 1;
    picks_.push_back(random() % 10 == 0 ? kNew : rank);
  }
}

}  // namespace sluice::bench
