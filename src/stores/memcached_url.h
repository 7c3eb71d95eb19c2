#pragma once

#include "stores/memcached/memcached_options.h"
#include "stores/store_options.h"
#include "stores/url.h"

namespace sluice {

/// Reads what a URL says of a store on Memcached:
///
///     memcached://host[:port][,host[:port]...]
///
/// Options: prefix, deadline, connections, tls=yes, and with it ca, cert, key, server_name,
/// verify=no. Takes all options and finishes the URL. Throws StoreError.
memcached::MemcachedOptions read_memcached_url(StoreUrl& url, const StoreOptions& options);

}  // namespace sluice
