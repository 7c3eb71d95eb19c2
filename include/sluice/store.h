#pragma once

#include <memory>
#include <stdexcept>
#include <string_view>

#include "sluice/export.h"

namespace sluice {

/// Where the state of keys lives. Shared by any number of limiters and threads.
class Store;

/// A store cannot be opened, or cannot do what is asked of it (not: a request is denied). what() is
/// one sentence.
class SLUICE_EXPORT StoreError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Opens a store by its URL:
///
///     memory:                        in this process, at most 1 GiB
///     memory:?max_bytes=16777216     at most 16 MiB (and never less than 1 MiB)
///     memory:?full=allow             where there is no room for a new key, it is admitted and not
///                                    recorded (default: deny, Decision::source says kFull)
///
///     redis://[user:password@]host[:port][/database]           rediss:// the same over TLS
///     redis+sentinel://host[:port],host.../primary[/database]
///     redis+cluster://host[:port],host...
///     unix://[user:password@]/path/of/the/socket               Redis, too
///     memcached://host[:port][,host[:port]...]                 each has its share of the keys
///
/// In user, password, path and values of options, %xx is a byte; an IPv6 address stands in
/// brackets. User and password are those of the servers that hold the keys, the same for all of
/// them; a user without a password is refused. Sentinels are sent none, so they must ask for none.
/// Options of Redis, with what holds without them:
///
///     prefix=sluice          what its keys begin with
///     deadline=10ms          how long a decision may take before somebody else makes it
///     time=server|client     whose clock decides: the server's, else this process's
///     skew=5s                by how much clocks may differ, under time=client
///     connections=1          to each server
///     ca=, cert=, key=, server_name=, verify=yes|no            for TLS: files in PEM
///     tls=no|yes             to sentinels and clusters
///     db=0, user=, password= on a Unix socket; these two win over those before it
///
/// Options of Memcached: prefix, deadline, connections and, with tls=yes, those for TLS are the
/// same.
///
/// Where the store lives elsewhere, a Limiter answers even if it cannot:
///
///     on_failure=local       by states of this process, which have followed what it did; or allow,
///                            deny (for a second), or raise, which throws StoreError
///     local_share=1/N        these states allow one Nth of each limit, N from 1 to 1000, rounded
///                            down (default 1/1)
///     deny_cache=yes|no      what was denied is denied again until retry_after, unasked (but not a
///                            permit: it may come back earlier)
///
/// Decision::source says who answered. A charge, refund, block or reset that the store does not
/// answer happens to this process's states alone.
///
/// Throws StoreError, whose sentence shows no password. A store does not outlive fork(): the child
/// opens its own.
SLUICE_EXPORT std::shared_ptr<Store> open_store(std::string_view url);

}  // namespace sluice
