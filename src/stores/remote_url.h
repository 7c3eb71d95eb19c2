#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "net/endpoint.h"
#include "stores/store_options.h"
#include "stores/url.h"

namespace sluice {

/// Options that the URLs of all stores on servers have in common. All functions throw StoreError.

/// ca, cert, key, server_name and verify=no if `wanted`; else reads no option and returns nothing.
std::shared_ptr<TlsContext> read_tls(StoreUrl& url, bool wanted);

/// deadline=, from 1 ms to a minute; by default 10 ms. In virtual time at least five seconds: in a
/// replay no caller waits, and a server that takes longer counts as lost.
std::chrono::nanoseconds read_deadline(StoreUrl& url, const StoreOptions& options);

/// connections=, from 1 to 64; by default 1.
std::size_t read_connections(StoreUrl& url);

/// The text that a replay appends to its prefix, different each time, so that it neither reads nor
/// removes states of others. Has 1 to 32 characters of a-z, 0-9 and '-'.
std::string replay_suffix();

}  // namespace sluice
