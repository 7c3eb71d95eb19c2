#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/asio_types.h"
#include "net/endpoint.h"

// Includes Boost.Asio, which compiles slowly: for the .cc files of this module only.

namespace sluice {

/// The addresses of an endpoint, or why there are none.
struct LookupResult {
  std::vector<IoSocket::endpoint_type> addresses;
  std::string error;
};

inline constexpr std::size_t kMaxAddresses = 16;

/// Asks the system for the addresses of a host's name, in the order to try them, at most
/// kMaxAddresses. Blocks for as long as the system's resolver takes: many seconds.
LookupResult look_up_host(const Endpoint& endpoint);

/// The address of an endpoint that needs no lookup: of a Unix socket, or in digits.
std::optional<LookupResult> address_without_lookup(const Endpoint& endpoint);

/// Calls `look_up` on a thread of its own, since it blocks, and then `done` on the thread that runs
/// the context, which lives until then. If the system has no thread, calls `done` at once.
void begin_lookup(const std::shared_ptr<boost::asio::io_context>& context, const Endpoint& endpoint,
                  LookupResult (*look_up)(const Endpoint&),
                  const std::function<void(LookupResult)>& done);

}  // namespace sluice
