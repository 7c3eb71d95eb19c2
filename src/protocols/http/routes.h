#pragma once

#include <string_view>

#include "protocols/http/context.h"

namespace sluice::http {

/// A path and what it does.
struct Route {
  /// With a slash at its end: all paths that begin so.
  std::string_view path;
  /// GET (and HEAD), POST, or empty for any.
  std::string_view method;
  void (*run)(Exchange& exchange);
  /// What a client needs; kNoRole: everyone may ask.
  Roles role = kCheckRole;
  /// The request is one that a proxy asks about for its own client, so its headers (Origin, Host)
  /// are those of that client.
  bool is_for_proxies = false;
  /// It tells what no user of the limits needs to know: without users it is served where only
  /// programs of this machine ask.
  bool is_for_operators = false;
};

/// Carries the request out. Throws Problem: 404 or 405 where there is no such request, 401 or 403
/// where the client may not make it, and what the endpoint throws.
void run_route(Exchange& exchange);

}  // namespace sluice::http
