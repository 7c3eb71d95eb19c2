#include "protocols/http/routes.h"

#include <algorithm>
#include <array>

#include "protocols/http/endpoints.h"

namespace sluice::http {
namespace {

template <Operation kOperation, Form kForm>
void of_key(RequestContext& context) {
  run_of_key(context, kOperation, kForm);
}
template <Operation kOperation>
void of_permit(RequestContext& context) {
  run_of_permit(context, kOperation);
}

constexpr std::array kRoutes = std::to_array<Route>({
    {"/auth", "GET", run_auth, kCheckRole, true},
    {"/auth/", "", run_auth_path, kCheckRole, true},
    {"/v1/check", "POST", run_check},
    {"/v1/peek", "POST", of_key<Operation::kTake, Form::kDecision>},
    {"/v1/reset", "POST", of_key<Operation::kReset, Form::kDone>, kAdminRole, false, Place::kAdmin},
    {"/v1/refund", "POST", of_key<Operation::kRefund, Form::kDecision>, kAdminRole, false,
     Place::kAdmin},
    {"/v1/charge", "POST", of_key<Operation::kCharge, Form::kDecision>, kAdminRole, false,
     Place::kAdmin},
    {"/v1/take", "POST", of_key<Operation::kTakeUpTo, Form::kTaken>},
    {"/v1/block", "POST", run_block, kAdminRole, false, Place::kAdmin},
    {"/v1/reserve", "POST", run_reserve},
    {"/v1/commit", "POST", run_commit},
    {"/v1/permits/acquire", "POST", run_acquire},
    {"/v1/permits/renew", "POST", of_permit<Operation::kRenew>},
    {"/v1/permits/release", "POST", of_permit<Operation::kRelease>},
    {"/v1/limits", "GET", run_limits, kAdminRole, false, Place::kAdmin},
    {"/healthz", "GET", run_health, kNoRole, false, Place::kBoth},
    {"/readyz", "GET", run_ready, kNoRole, false, Place::kBoth},
    {"/v1/top", "GET", run_top, kAdminRole, false, Place::kAdmin},
    {"/", "GET", run_playground, kNoRole, false, Place::kAdmin},
    {"/playground", "GET", run_playground, kNoRole, false, Place::kAdmin},
    {"/v1/simulate", "POST", run_simulate, kCheckRole, false, Place::kAdmin},
    {"/metrics", "GET", run_metrics, kMetricsRole, false, Place::kAdmin},
});

const Route* find_route(std::string_view path) {
  for (const Route& route : kRoutes) {
    const bool is_prefix = route.path.size() > 1 && route.path.ends_with('/');
    if (is_prefix ? path.starts_with(route.path) : path == route.path) return &route;
  }
  return nullptr;
}

// The host of an authority, without its port.
std::string_view host_of(std::string_view authority) {
  const bool is_bracketed = authority.starts_with('[');
  const std::size_t colon = authority.find(':', is_bracketed ? authority.find(']') : 0);
  return authority.substr(0, colon);
}

bool is_loopback_name(std::string_view host) {
  constexpr std::string_view kLocalhost = "localhost";
  if (host == "[::1]" || equals_ignoring_case(host, kLocalhost)) return true;
  const std::size_t dot = host.size() - std::min(host.size(), kLocalhost.size() + 1);
  if (host[dot] == '.' && equals_ignoring_case(host.substr(dot + 1), kLocalhost)) return true;
  return host.starts_with("127.") &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

// Refuses a path that is only served at other addresses.
void check_place(const RequestContext& context, const Route& route) {
  if (route.place == Place::kBoth) return;
  const bool is_of_admin = route.place == Place::kAdmin;
  const Peer& peer = context.peer;
  if (peer.is_at_admin) {
    if (is_of_admin) return;
    throw Problem{.status = 404, .detail = "this path is served at the addresses of HTTP alone"};
  }
  if (!is_of_admin) return;
  if (context.thread.server->admin_is_apart()) {
    throw Problem{.status = 404, .detail = "this path is served at the addresses of admin alone"};
  }
  if (!peer.is_local()) {
    throw Problem{.status = 404,
                  .detail =
                      "this path is served at the addresses of admin, on loopback addresses and on "
                      "Unix sockets only"};
  }
}

bool starts_ignoring_case(std::string_view text, std::string_view beginning) {
  return equals_ignoring_case(text.substr(0, beginning.size()), beginning);
}

// Whether a proxy has passed the request on: Origin, Sec-Fetch-Site and Host are then those of its
// own client. No page of another site can have a browser send these headers, since the browser asks
// first.
bool has_proxy_header(const Message& message) {
  return std::ranges::any_of(message.fields, [](const HeaderField& field) {
    return starts_ignoring_case(field.name, "X-Forwarded-") ||
           starts_ignoring_case(field.name, "X-Original-") ||
           equals_ignoring_case(field.name, "X-Sluice-Token");
  });
}

// Whether a browser says that a page of another site has made the request.
bool is_from_other_site(const Message& message) {
  const std::string_view site = message.only_field("Sec-Fetch-Site");
  return !site.empty() && site != "same-origin" && site != "none";
}

// Refuses requests of a browser that shows a page of another site. The browser names that site in
// Origin, or, if the site's name leads to this machine, in Host. When a page loads an image, say,
// the browser sends no Origin; of the paths that a page can load so, only /auth changes anything.
void check_browser(const RequestContext& context, const Route* route) {
  const Message& message = context.message;
  const std::string_view host = host_of(message.host);
  if (context.peer.is_loopback && !host.empty() && !is_loopback_name(host)) {
    throw Problem{.status = 403,
                  .detail =
                      "this address answers requests whose Host is localhost or a loopback "
                      "address"};
  }
  const std::string_view origin = message.only_field("Origin");
  const std::size_t scheme = origin.find("://");
  const bool is_own = scheme != std::string_view::npos &&
                      equals_ignoring_case(origin.substr(scheme + 3), message.host);
  const bool is_loaded = route != nullptr && route->is_for_proxies && is_from_other_site(message);
  if (is_loaded || (message.has_field("Origin") && !is_own)) {
    throw Problem{.status = 403, .detail = "the request comes from a page of another site"};
  }
}

// Refuses a client that lacks the role. A proxy that asks about its own client would pass a 401 or
// a 403 on to it, so the proxy's mistakes are 500; and Authorization is then its client's.
void check_access(RequestContext& context, const Route& route) {
  if (route.role == kNoRole) return;
  const auto refuse = [&](int status, const char* detail) {
    throw Problem{.status = route.is_for_proxies ? 500 : status, .detail = detail};
  };
  Access& access = context.thread.server->access();
  Access::Login login;
  const Identity* identity = &context.peer.access.identity();
  constexpr std::string_view kScheme = "Bearer ";
  std::string_view token;
  // Behind a proxy with a certificate the header is the proxy's own client's, and means nothing.
  const bool is_certified = route.is_for_proxies && identity->is_known;
  if (!is_certified) {
    token = context.message.only_field(route.is_for_proxies ? "X-Sluice-Token" : "Authorization");
  }
  if (context.peer.access.has_users() && !token.empty()) {
    if (!route.is_for_proxies) {
      if (!equals_ignoring_case(token.substr(0, kScheme.size()), kScheme)) {
        refuse(401, "Authorization must be: Bearer TOKEN");
      }
      token.remove_prefix(std::min(token.find_first_not_of(' ', kScheme.size()), token.size()));
    }
    login = access.log_in({}, token, context.peer.address);
    if (login.verdict == Access::Verdict::kTooManyWrong) {
      context.options.closes = true;
      refuse(429, "there were too many wrong tokens from this address");
    }
    if (login.verdict == Access::Verdict::kWrong) refuse(401, "the token is wrong");
    identity = &login.identity;
    context.has_right_token = true;
  }
  if (!identity->is_known) refuse(401, "this server asks for a token or a certificate");
  if (!identity->may(route.role)) refuse(403, "this user has no role for this path");
  context.roles = identity->roles;
}

}  // namespace

const Route& find_allowed(RequestContext& context) {
  const Message& message = context.message;
  const Route* const route = find_route(message.path());
  const bool is_passed_on = route != nullptr && route->is_for_proxies && has_proxy_header(message);
  if (!is_passed_on) check_browser(context, route);
  if (route == nullptr) throw Problem{.status = 404, .detail = "there is no such path"};
  check_place(context, *route);
  const bool is_head = message.method == "HEAD" && route->method == "GET";
  if (!route->method.empty() && message.method != route->method && !is_head) {
    throw Problem{.status = 405,
                  .detail = "this path has no such method",
                  .allow = route->method == "GET" ? "GET, HEAD" : route->method};
  }
  check_access(context, *route);
  return *route;
}

}  // namespace sluice::http
