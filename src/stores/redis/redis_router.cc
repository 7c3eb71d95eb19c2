#include "stores/redis/redis_router.h"

#include <utility>

#include "stores/redis/redis_space.h"

namespace sluice::redis {
namespace {

// To one server, for as long as the store is open.
class SingleRouter final : public RedisRouter {
 public:
  SingleRouter(const RedisOptions& options, RemoteWorker& worker)
      : RedisRouter(options, worker),
        node_(options, worker, Connection::Purpose::kPrimary, options.servers.front(), *this) {}

  std::vector<Connection*> servers() override { return {&node_.connection()}; }

 private:
  Route find(std::uint16_t slot) override { return {.connection = &node_.connection(slot)}; }

  Node node_;
};

}  // namespace

std::unique_ptr<RedisRouter> make_router(const RedisOptions& options, RemoteWorker& worker) {
  switch (options.topology) {
    case Topology::kSentinel:
      return make_sentinel_router(options, worker);
    case Topology::kCluster:
      return make_cluster_router(options, worker);
    case Topology::kSingle:
      break;
  }
  return std::make_unique<SingleRouter>(options, worker);
}

RedisRouter::RedisRouter(const RedisOptions& options, RemoteWorker& worker)
    : options_(options), worker_(worker) {}

std::string RedisRouter::refusal(const Connection& server, const std::string& kind,
                                 std::string_view said) {
  const std::string error(said);
  // "ERR unknown command", "ERR This instance has cluster support disabled".
  if (!error.starts_with("ERR ")) return server.name() + ": " + error;
  return server.name() + " is no " + kind + " (" + error +
         "): the URL of a single server is redis://";
}

void RedisRouter::no_routes(std::string why) {
  no_routes_ = std::move(why);
  worker_.monitor().set_obstacle(no_routes_);
  take_all(waiting_);
}

void RedisRouter::routes_known(RequestList again) {
  no_routes_.clear();
  worker_.monitor().set_obstacle({});
  waiting_.append(again);
  take_all(waiting_);
  flush();
}

// The slot matters only if keys are spread over nodes or over connections.
void RedisRouter::route(PendingRequest& request) {
  const Request& first = request.requests[0];
  const bool is_spread = is_cluster() || options_.connections > 1;
  request.slot = is_spread ? slot_of(redis_key(*first.space, first.key)) : std::uint16_t{0};
  take(request);
}

void RedisRouter::take(PendingRequest& request) {
  const Route route = find(request.slot);
  if (route.connection != nullptr) {
    touch(*route.connection);
    route.connection->add(request);
  } else if (!route.error.empty()) {
    worker_.fail(request, route.error);
  } else {
    waiting_.push_back(request);
  }
}

// take() may put a request back into `requests`: so take from a copy, each request once.
void RedisRouter::take_all(RequestList& requests) {
  RequestList all;
  all.append(requests);
  while (!all.empty()) take(all.pop_front());
}

void RedisRouter::touch(Connection& connection) {
  if (!touched_.empty() && touched_.back() == &connection) return;
  if (std::ranges::find(touched_, &connection) == touched_.end()) touched_.push_back(&connection);
}

// A connection's flush() may call this again.
void RedisRouter::flush() {
  for (Connection* connection : std::exchange(touched_, {})) connection->flush();
}

// A batch that fits into one call (on a cluster: of one request) waits for no other call, so its
// deadline counts from its beginning.
std::optional<RemoteWorker::Clock::time_point> RedisRouter::sent_at(const PendingRequest& request) {
  const std::size_t in_one_call = is_cluster() ? 1 : ScriptCall::kMaxRequests;
  const bool is_one_call = request.batch->requests.size() <= in_one_call;
  if (is_one_call || request.is_again) return std::nullopt;
  const Route route = find(request.slot);
  return route.connection != nullptr ? route.connection->sent_at(request) : std::nullopt;
}

std::string RedisRouter::expire(PendingRequest& request) {
  request.is_late = request.holder != nullptr;
  if (!request.is_late) Connection::abandon(request);
  const Route route = find(request.slot);
  return worker_.late_error(route.connection != nullptr ? route.connection->name() : "redis");
}

// If the server says that it is a replica, a new connection may lead to the primary: after a
// failover the host name, the load balancer or the sentinels may name another server.
void RedisRouter::on_error(Connection& connection, const ServerError& error) {
  if (error.kind != ServerError::Kind::kReadOnly) return;
  connection.reconnect(connection.name() + ": " + std::string(error.text));
}

void RedisRouter::on_refused(PendingRequest& request, Connection& connection,
                             const ServerError& error) {
  using Kind = ServerError::Kind;
  request.is_again = true;
  const bool is_redirected = error.kind == Kind::kMoved || error.kind == Kind::kAsk;
  if (request.is_late && (is_redirected || error.kind == Kind::kNoScript)) {
    worker_.fail(request, error.text);  // It was late, and not refused.
  } else if (is_redirected) {
    redirect_request(error, request, connection);
  } else {
    const bool is_of_key = error.kind == Kind::kNoPerm;
    worker_.refuse(request, connection.name() + ": " + std::string(error.text),
                   is_of_key ? " (key " + names_of(request.requests) + ")" : "");
  }
  flush();
}

void RedisRouter::redirect_request(const ServerError& error, PendingRequest& request,
                                   Connection& from) {
  if (++request.tries > Connection::kMaxTries) {
    return worker_.refuse(request, from.name() + " redirected once too often");
  }
  const Route to = redirect(error, from);
  if (to.connection == nullptr) {
    return worker_.refuse(request, from.name() + ": " + std::string(to.error));
  }
  touch(*to.connection);
  to.connection->add(request, error.kind == ServerError::Kind::kAsk);
}

}  // namespace sluice::redis
