#include "limiter/open_store.h"

#include <charconv>

#include "limiter/timekeeper.h"
#include "sluice/store.h"
#include "stores/stores.h"

namespace sluice {
namespace {

// Reads 1/N.
std::int64_t read_share(const StoreUrl& url, std::string_view text) {
  std::int64_t parts = 0;
  const char* end = text.data() + text.size();
  if (text.starts_with("1/")) {
    const auto read = std::from_chars(text.data() + 2, end, parts);
    if (read.ec != std::errc{} || read.ptr != end) parts = 0;
  }
  if (parts < 1 || parts > GuardOptions::kMostShares) {
    url.fail("local_share is 1/N, with N from 1 to " + std::to_string(GuardOptions::kMostShares));
  }
  return parts;
}

// Who is told an answer may hold the last share of the store, in a callback that goes on the
// store's own thread: that cannot wait for its own end, so another one does.
void end_store(GuardedStore* store) {
  if (GuardedStore::is_telling()) {
    Timekeeper::shared()->post([store] { delete store; });
  } else {
    delete store;
  }
}

}  // namespace

GuardOptions read_guard_options(StoreUrl& url) {
  GuardOptions options;
  // In the order of OnFailure.
  const auto policy = url.word_option("on_failure", {"local", "allow", "deny", "raise"});
  options.on_failure = static_cast<OnFailure>(policy.value_or(0));
  if (const auto share = url.text_option("local_share")) {
    options.local_share = read_share(url, *share);
    if (options.on_failure != OnFailure::kLocal) {
      url.fail("local_share goes with on_failure=local only");
    }
  }
  options.deny_cache = url.yes_no_option("deny_cache", true);
  return options;
}

std::shared_ptr<Store> open_store(std::string_view text) {
  StoreUrl url(text);
  if (!is_remote(url)) return open_bare_store(url);
  const GuardOptions options = read_guard_options(url);
  return {new GuardedStore(open_bare_store(url), options), end_store};
}

}  // namespace sluice
