#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "core/store.h"
#include "stores/url.h"

namespace sluice {

struct StoreOptions {
  /// Every decision is given its instant, as in replay: nothing reads the clock, nothing is
  /// forgotten or evicted for lack of room (StoreError instead), hashing is the same in every run.
  bool virtual_time = false;
  /// Keys in virtual time are of no use to anybody afterwards. Where a store on Redis cannot remove
  /// its own as it is destroyed, it is called with one sentence that says what may be left, on the
  /// thread that destroys the store. (Memcached cannot tell: it does not list its keys.)
  std::function<void(std::string_view)> left_behind = {};
};

/// Whether the store lives elsewhere, so that it may leave a request unanswered. Throws StoreError
/// where the URL's scheme is no store's.
bool is_remote(const StoreUrl& url);

/// Opens a store as it is, with nothing around it that answers in its place: what it does not
/// answer is Source::kUnanswered, and StoreError. Takes its options from the URL and finishes it,
/// so whoever takes others does so before. open_store() in sluice/store.h is for everybody else.
/// Throws StoreError.
std::shared_ptr<Store> open_bare_store(StoreUrl& url, const StoreOptions& options = {});
std::shared_ptr<Store> open_bare_store(std::string_view url, const StoreOptions& options = {});

}  // namespace sluice
