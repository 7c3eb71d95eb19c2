#include "limiter/open_store.h"

#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "core/fork.h"
#include "core/read_number.h"
#include "limiter/store_observer.h"
#include "sluice/health.h"
#include "sluice/store.h"
#include "stores/stores.h"
#include "waiting/timer_thread.h"

namespace sluice {
namespace {

// Reads 1/N.
std::int64_t read_share(const StoreUrl& url, std::string_view text) {
  std::int64_t parts = 0;
  if (!text.starts_with("1/") || !read_number(text.substr(2), parts) || parts < 1 ||
      parts > FallbackOptions::kMostShares) {
    url.fail("local_share is 1/N, with N from 1 to " +
             std::to_string(FallbackOptions::kMostShares));
  }
  return parts;
}

/// Destroys a store.
class StoreDeleter {
 public:
  // A completion may hold the last share of the store, and runs on the store's own thread: that
  // cannot wait for its own end, so the timer thread does. If the system cannot start that, the
  // store stays until the process ends.
  void operator()(FallbackStore* store) const {
    if (generation_ != fork_generation()) {
      keep(store);
    } else if (!FallbackStore::is_completing()) {
      delete store;
    } else if (const auto timer = TimerThread::shared_or_null()) {
      timer->post([store] { delete store; });
    }
  }

 private:
  // In a child of fork(): the store's thread and what it waits for exist in the parent only, so the
  // child could wait for it for ever. Its connections are the parent's.
  static void keep(FallbackStore* store) {
    struct Kept {
      std::mutex mutex;
      std::vector<FallbackStore*> stores;
    };
    // Keeps them in reach: else they would look like lost memory.
    static constinit PerProcess<Kept> of_process;
    const std::lock_guard lock(of_process.get().mutex);
    of_process.get().stores.push_back(store);
  }

  const std::uint64_t generation_ = fork_generation();
};

}  // namespace

FallbackOptions read_fallback_options(StoreUrl& url) {
  FallbackOptions options;
  // In the order of OnFailure.
  const auto policy = url.word_option("on_failure", {"local", "allow", "deny", "raise"});
  options.on_failure = static_cast<OnFailure>(policy.value_or(0));
  if (const auto share = url.text_option("local_share")) {
    options.local_share = read_share(url, *share);
    if (options.on_failure != OnFailure::kLocal) {
      url.fail("local_share goes with on_failure=local only");
    }
  }
  const OptionRange hold{.least = kMillisecondNs, .most = kDayNs, .or_no = true};
  if (const auto hold_ns = url.duration_option("deny_cache", hold)) {
    options.deny_cache = std::chrono::nanoseconds(*hold_ns);
  }
  return options;
}

void check_store_url(std::string_view text) {
  StoreUrl url(text);
  if (is_remote(url)) read_fallback_options(url);
  check_bare_store(url);
}

std::shared_ptr<Store> open_store(std::string_view text) {
  StoreUrl url(text);
  if (!is_remote(url)) return open_bare_store(url);
  const FallbackOptions options = read_fallback_options(url);
  return {new FallbackStore(open_bare_store(url), options), StoreDeleter()};
}

std::shared_ptr<Store> open_store(std::string_view text, StoreObserver observer) {
  auto store = open_store(text);
  if (observer) observe(store, StoreUrl(text).text(), std::move(observer));
  return store;
}

}  // namespace sluice
