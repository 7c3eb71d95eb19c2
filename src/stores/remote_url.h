#pragma once

#include "stores/memcached/memcached_options.h"
#include "stores/redis/redis_options.h"
#include "stores/url.h"

namespace sluice {

/// Each of these reads the options of a store on servers from its URL, all of them, and finishes
/// the URL. Throws StoreError.
///
/// Both know prefix, deadline, connections, and for TLS: ca, cert, key, server_name, verify=no. In
/// virtual time the prefix is the replay's own, so that it neither reads nor removes states of
/// others, and the deadline is five seconds at least: no caller waits, and a server that takes
/// longer counts as lost.

///     redis://[user:password@]host[:port][/database]      rediss:// the same over TLS
///     valkey://, valkeys://                               other names of these two
///     unix://[user:password@]/path/of/the/socket
///     redis+sentinel://host[:port],host.../primary[/database]
///     redis+cluster://host[:port],host...
///
/// Options: time=server|client, skew; for unix: db, user, password. Sentinels and clusters over
/// TLS: tls=yes. User and password are sent to the servers that hold the keys, and not to
/// sentinels, which have sentinel_user and sentinel_password.
redis::RedisOptions read_redis_url(StoreUrl& url, const StoreOptions& options);

///     memcached://host[:port][,host[:port]...]
///
/// Over TLS: tls=yes.
memcached::MemcachedOptions read_memcached_url(StoreUrl& url, const StoreOptions& options);

}  // namespace sluice
