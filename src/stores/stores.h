#pragma once

#include <memory>
#include <string_view>

#include "core/store.h"

namespace sluice {

struct StoreOptions {
  /// Every decision is given its instant, as in replay: nothing reads the clock, nothing is
  /// forgotten or evicted for lack of room (StoreError instead), hashing is the same in every run.
  bool virtual_time = false;
};

/// As open_store(url) in sluice/store.h, with options for who runs a store, not who configures it.
std::shared_ptr<Store> open_store(std::string_view url, const StoreOptions& options);

}  // namespace sluice
