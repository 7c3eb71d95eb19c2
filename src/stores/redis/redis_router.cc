#include "stores/redis/redis_router.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "stores/redis/redis_space.h"

namespace sluice::redis {
namespace {

// A server that cannot answer now is asked again after this.
constexpr std::chrono::milliseconds kLater{3};

std::unique_ptr<Fleet> make_fleet(const FleetParts& parts) {
  switch (parts.options.topology) {
    case Topology::kSentinel:
      return make_sentinel_fleet(parts);
    case Topology::kCluster:
      return make_cluster_fleet(parts);
    case Topology::kSingle:
      break;
  }
  return make_single_fleet(parts);
}

}  // namespace

void RedisRouter::open(RemoteWorker& worker) {
  worker_ = &worker;
  later_.emplace(worker.context(), [this] {
    take_all(asked_later_);
    flush();
  });
  fleet_ = make_fleet({.options = options_,
                       .worker = worker,
                       .listener = *this,
                       .changed = [this](RequestList again) {
                         waiting_.append(again);
                         take_all(waiting_);
                         flush();
                       }});
}

// The slot matters only if keys are spread over nodes or over connections.
std::uint16_t RedisRouter::slot_of(const PendingRequest& request) const {
  if (options_.topology != Topology::kCluster && options_.connections == 1) return 0;
  return redis::slot_of(redis_key(*request.requests[0].space, request.requests[0].key));
}

void RedisRouter::route(PendingRequest& request) {
  request.slot = slot_of(request);
  take(request);
}

void RedisRouter::take(PendingRequest& request) {
  const Route route = fleet_->route(request.slot);
  if (route.connection != nullptr) {
    touch(*route.connection);
    route.connection->add(request);
  } else if (!route.error.empty()) {
    worker_->fail(request, route.error);
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

// A batch of one call, on a cluster a batch of one request, waits for no other.
std::optional<RemoteWorker::Clock::time_point> RedisRouter::sent_at(const PendingRequest& request) {
  const std::size_t in_one_call = is_cluster() ? 1 : ScriptCall::kMaxRequests;
  const bool is_one_call = request.batch->requests.size() <= in_one_call;
  if (is_one_call || request.is_again) return std::nullopt;
  const Route route = fleet_->route(request.slot);
  return route.connection != nullptr ? route.connection->sent_at(request) : std::nullopt;
}

std::string_view RedisRouter::abandon(PendingRequest& request) {
  Connection::abandon(request);
  const Route route = fleet_->route(request.slot);
  return route.connection != nullptr ? route.connection->late_error() : nowhere_.late_error();
}

void RedisRouter::on_up(Connection& connection) {
  was_connected_ = true;
  fleet_->on_up(connection);
}

void RedisRouter::on_refused(PendingRequest& request, Connection& connection,
                             std::string_view text) {
  using Kind = ServerError::Kind;
  const ServerError error = read_server_error(text);
  const Kind kind = error.kind;
  request.is_again = true;
  const bool is_doubtful = kind == Kind::kClusterDown || kind == Kind::kReadOnly;
  if (kind == Kind::kMoved || kind == Kind::kAsk) {
    redirect(request, connection, error);
  } else if (kind == Kind::kTryAgain || kind == Kind::kBusy || kind == Kind::kLoading ||
             (is_doubtful && fleet_->doubt(connection, text))) {
    request.alone = request.alone || kind == Kind::kTryAgain;
    if (!later_->is_set()) later_->set(kLater);
    asked_later_.push_back(request);
  } else {
    const bool is_of_key = kind == Kind::kNoPerm;
    worker_->fail(request, connection.name() + ": " + std::string(text) +
                               (is_of_key ? " (key " + names_of(request.requests) + ")" : ""));
  }
  flush();
}

void RedisRouter::redirect(PendingRequest& request, Connection& connection,
                           const ServerError& error) {
  if (++request.tries > Connection::kMaxTries) {
    return worker_->fail(request, connection.name() + " redirected once too often");
  }
  const Route to = fleet_->redirect(error, connection);
  if (to.connection == nullptr) {
    return worker_->fail(request, connection.name() + ": " + std::string(to.error));
  }
  touch(*to.connection);
  to.connection->add(request, error.kind == ServerError::Kind::kAsk);
}

}  // namespace sluice::redis
