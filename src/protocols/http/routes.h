#pragma once

#include <cstdint>
#include <string_view>

#include "protocols/http/context.h"

namespace sluice::http {

/// Which listeners have a path.
enum class Place : std::uint8_t {
  kHttp,   ///< Those of HTTP.
  kAdmin,  ///< Those of admin; without any of these, those of HTTP that are local.
  kBoth,
};

/// A path and what it does.
struct Route {
  /// With a slash at its end, except for "/": all paths that begin so.
  std::string_view path;
  /// GET (and HEAD), POST, or empty for any.
  std::string_view method;
  /// Carries out the request. May throw Problem.
  void (*run)(RequestContext& context);
  /// The role that a client needs. kNoRole: any client may ask.
  Roles role = kCheckRole;
  /// The request is one that a proxy asks about for its own client, so its Authorization is that of
  /// the client, and so are Origin and Host where the proxy has passed them on.
  bool is_for_proxies = false;
  Place place = Place::kHttp;
};

/// Finds what the request asks for, which may lack its body. Throws Problem: 404 or 405 if this
/// listener has no such path or method, 401 or 403 if the client may not make the request.
const Route& find_allowed(RequestContext& context);

}  // namespace sluice::http
