#pragma once

#include <memory>
#include <string_view>

#include "core/store.h"
#include "stores/url.h"

namespace sluice {

/// Whether the store is on another machine, so that it may fail to answer. Throws StoreError if no
/// store has the URL's scheme.
bool is_remote(const StoreUrl& url);

/// Opens a store without a failure policy: requests that it does not answer are
/// Source::kUnavailable, or throw StoreError. Programs use open_store() of sluice/store.h instead.
/// Reads the store's options from the URL and calls url.finish(), so a caller that reads other
/// options does so before. Throws StoreError.
std::shared_ptr<Store> open_bare_store(StoreUrl& url, const StoreOptions& options = {});
std::shared_ptr<Store> open_bare_store(std::string_view url, const StoreOptions& options = {});

/// Reads the store's options from the URL as open_bare_store() does, and the files for TLS that
/// they name, and opens nothing. Throws StoreError where that would for their sake.
void check_bare_store(StoreUrl& url);

/// Throws StoreError where the store of this URL would refuse to open a space for the limit, as far
/// as that depends on the limit alone.
void check_limit(const StoreUrl& url, const LimitDefinition& limit);

}  // namespace sluice
