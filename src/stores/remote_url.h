#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "net/endpoint.h"
#include "stores/stores.h"
#include "stores/url.h"

namespace sluice {

/// What the URLs of all stores on servers have in common. All throw StoreError.

/// ca, cert, key, server_name, verify=no: where TLS is wanted, else nothing, and they stay unread.
std::optional<TlsOptions> read_tls(StoreUrl& url, bool wanted);

/// deadline=, from 1 ms to a minute, else 10 ms. In virtual time at least five seconds: a replay
/// has nobody who waits, and a server that takes longer is lost.
std::chrono::nanoseconds read_deadline(StoreUrl& url, const StoreOptions& options);

/// connections=, from 1 to 64, else 1.
std::size_t read_connections(StoreUrl& url);

/// What a replay appends to its prefix, different each time: its keys are its own, so that nobody
/// else's states are read or removed. Has 1 to 32 characters of a-z, 0-9 and '-'.
std::string replay_suffix();

}  // namespace sluice
