#pragma once

#include <string_view>

#include "fallback/fallback_store.h"
#include "stores/url.h"

namespace sluice {

/// Takes the options of the fallback from a store's URL, before the store takes its own:
/// on_failure=local|allow|deny|raise, local_share=1/N, deny_cache=1s|no. Throws StoreError.
FallbackOptions read_fallback_options(StoreUrl& url);

/// Throws StoreError where open_store() would refuse the URL; opens nothing.
void check_store_url(std::string_view text);

}  // namespace sluice
