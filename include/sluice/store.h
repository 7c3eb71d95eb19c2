#pragma once

#include <memory>
#include <stdexcept>
#include <string_view>

#include "sluice/export.h"

namespace sluice {

/// Keeps the states of keys. Any number of limiters and threads may share a store. Thread-safe.
class Store;

/// Thrown if a store cannot be opened, or cannot execute a request. (A denied request is not an
/// error.) what() is one sentence.
class SLUICE_EXPORT StoreError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Opens the store of a URL:
///
///     memory:                        in this process, at most 1 GiB
///     memory:?max_bytes=16777216     at most 16 MiB (the minimum is 1 MiB)
///     memory:?full=allow             admits a new key that finds no room, without recording it
///                                    (default: full=deny); Decision::source is kFull for both
///
///     redis://[user:password@]host[:port][/database]           rediss:// is the same over TLS
///     valkey://, valkeys://                                    other names of these two
///     redis+sentinel://host[:port],host.../primary[/database]
///     redis+cluster://host[:port],host...
///     unix://[user:password@]/path/of/the/socket               Redis over a Unix socket
///     memcached://host[:port][,host[:port]...]                 the servers share the keys
///
/// In user, password, path and the values of options, %xx is a byte. An IPv6 address is written in
/// brackets. User and password are for the servers that hold the keys, the same for all of them; a
/// user without a password is an error. Sentinels have options of their own for theirs.
///
/// Options for Redis, with their defaults:
///
///     prefix=sluice          the beginning of every key in Redis
///     deadline=10ms          how long a decision may take (1ms to 1m); after that the failure
///                            policy answers. If a batch takes several calls, this is the deadline
///                            of each call
///     time=server|client     the clock for decisions: the server's (default), or this process's
///     skew=5s                with time=client: by how much the clocks of processes may differ
///     connections=1          the number of connections to each server, 1 to 64
///     ca=, cert=, key=, server_name=, verify=yes|no            for TLS; the files are PEM,
///                                                              and are read again for the next
///                                                              connection after they have changed
///     tls=no|yes             TLS for sentinels and clusters
///     sentinel_user=, sentinel_password=    for redis+sentinel://, what the sentinels ask for
///     db=0, user=, password= for unix://; these two override those before the path
///
/// Memcached has the options prefix, deadline (for a batch: of the whole batch), connections,
/// tls=no|yes and, with tls=yes, the same options for TLS.
///
/// For Redis and Memcached, these options say how a Limiter answers if the store does not:
///
///     on_failure=local       by the local states of this process, which know what the store last
///                            said to it (default);
///                =allow      allows all requests;
///                =deny       denies them, with a retry_after of one second;
///                =raise      throws StoreError
///     local_share=1/N        local states admit one Nth of each limit, rounded down; N is from 1
///                            to 1000 (default 1/1)
///
/// With on_failure=local, a key of which the store last said that r units remain admits those r in
/// this process, and then what its limit returns with time (a bucket refills, the next window has
/// its whole limit). What the store denied stays denied until its retry_after. Only a key
/// that this process has never asked about begins fresh. Of permits, a process knows only those
/// that it holds: it grants up to the limit less these, whatever the store said. Units that local
/// states admit are charged to the store when it answers again, for at most 16,384 keys, if they
/// still count then and the store cannot have charged them already. If the store does not answer a
/// charge, refund, block or reset, it is applied to the local states only; units of a charge are
/// then charged to the store under the same conditions.
///
/// This option saves calls for keys that the store has denied:
///
///     deny_cache=1s|no       after a denial this process denies the key again without asking the
///                            store, until its retry_after, and for this duration at most (1ms to
///                            1d; default 1s)
///
/// A request is denied again if the store has denied an easier one for the same key, under the same
/// numbers: with the same or a smaller cost, and the same or a longer patience. check_all of
/// several claims, check_parts and permits always ask the store. So a reset, a refund or the end of
/// a block in one process is seen by all others after that duration, and by callers that wait in
/// acquire() within a second (Limiter::acquire() says by which). docs/failure.md has the rule in
/// detail ("The deny cache").
///
/// Decision::source says which of these answered.
///
/// Throws StoreError, also if the system has no thread or descriptor left; its message contains no
/// password. A child process must not use its parent's store after fork(); it must open its own. It
/// may let go of the parent's, and exit; if that store is on another machine, its memory and
/// connections stay until the child ends.
SLUICE_EXPORT std::shared_ptr<Store> open_store(std::string_view url);

}  // namespace sluice
