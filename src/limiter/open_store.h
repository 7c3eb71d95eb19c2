#pragma once

#include "limiter/guarded_store.h"
#include "stores/url.h"

namespace sluice {

/// Takes the guard's options from a store's URL, before the store takes its own:
/// on_failure=local|allow|deny|raise, local_share=1/N, deny_cache=yes|no. Throws StoreError.
GuardOptions read_guard_options(StoreUrl& url);

}  // namespace sluice
