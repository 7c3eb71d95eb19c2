#pragma once

#include "stores/redis/redis_options.h"
#include "stores/store_options.h"
#include "stores/url.h"

namespace sluice {

/// Reads the options of a store on Redis from its URL:
///
///     redis://[user:password@]host[:port][/database]      rediss:// the same over TLS
///     valkey://, valkeys://                               other names of these two
///     unix://[user:password@]/path/of/the/socket
///     redis+sentinel://host[:port],host.../primary[/database]
///     redis+cluster://host[:port],host...
///
/// Options: prefix, deadline, time=server|client, skew, connections; for TLS: ca, cert, key,
/// server_name, verify=no; for unix: db, user, password. Sentinels and clusters over TLS: tls=yes.
/// User and password are sent to the servers that hold the keys, and not to sentinels, which have
/// sentinel_user and sentinel_password. Reads all options and finishes the URL. Throws StoreError.
redis::RedisOptions read_redis_url(StoreUrl& url, const StoreOptions& options);

}  // namespace sluice
