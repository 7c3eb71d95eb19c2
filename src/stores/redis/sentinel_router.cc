#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/read_number.h"
#include "stores/redis/redis_router.h"

namespace sluice::redis {
namespace {

// How often the sentinels are asked for the primary: while it is not up, and while it is up, since
// a replaced primary may not know that yet.
constexpr std::chrono::milliseconds kAskAgain{100};
constexpr std::chrono::milliseconds kAskAnyway{1'000};

// Nothing if the sentinel names no primary, or none that can be connected to.
std::optional<Endpoint> read_address(const Reply& reply, const Endpoint& sentinel) {
  if (reply.elements.size() != 2) return std::nullopt;
  Endpoint endpoint{.host = std::string(reply.elements[0].text), .tls = sentinel.tls};
  if (endpoint.host.empty() || !is_host(endpoint.host)) return std::nullopt;
  if (!read_number(reply.elements[1].text, endpoint.port) || endpoint.port == 0) {
    return std::nullopt;
  }
  return endpoint;
}

class SentinelRouter final : public RedisRouter {
 public:
  SentinelRouter(const RedisOptions& options, RemoteWorker& worker)
      : RedisRouter(options, worker), watch_(worker.context(), [this] { watch(); }) {
    for (const Endpoint& sentinel : options.servers) {
      sentinels_.push_back({.connection = std::make_unique<Connection>(
                                options, worker, Purpose::kSentinel, sentinel, *this)});
    }
    watch();
  }

  // Before the other members, which a connection that is destroyed still calls.
  ~SentinelRouter() override {
    primary_.reset();
    sentinels_.clear();
  }

  Route find(std::uint16_t slot) override {
    return primary_ ? Route{.connection = &primary_->connection(slot)} : unknown();
  }

  void on_up(Connection& connection) override {
    if (primary_ && primary_->has(connection)) {
      RedisRouter::on_up(connection);
      trying_ = false;
      return;
    }
    if (primary_is_up()) return;
    ask(sentinel_of(connection));
  }

  void on_down(Connection& connection, std::string_view why) override {
    if (!primary_ || !primary_->has(connection)) {
      sentinel_of(connection).named.clear();
      const auto is_broken = [](const Sentinel& one) { return one.connection->is_broken(); };
      if (!primary_ && std::ranges::all_of(sentinels_, is_broken)) no_routes(std::string(why));
      return;
    }
    trying_ = false;
    ping_primary();
    // At once, unless each of several connections is lost, or an attempt fails again and again.
    watch_.set_at(asked_at_ + kAskAgain);
  }

  std::vector<Connection*> servers() override {
    return primary_ ? std::vector{&primary_->connection()} : std::vector<Connection*>{};
  }

 private:
  using Purpose = Connection::Purpose;
  using Clock = RemoteWorker::Clock;

  struct Sentinel {
    std::unique_ptr<Connection> connection;
    std::string named = {};  // The address that it names; empty if it does not, or is not there.
  };

  Sentinel& sentinel_of(const Connection& connection) {
    return *std::ranges::find_if(
        sentinels_, [&](const Sentinel& one) { return one.connection.get() == &connection; });
  }

  // It has said that it is no sentinel, or has not told such a primary.
  void set_none(Sentinel& sentinel, std::string why) {
    sentinel.named.clear();
    if (!primary_) no_routes(std::move(why));
  }

  // It serves as long as one of its connections does.
  bool primary_is_up() const {
    return primary_ && std::ranges::any_of(primary_->connections(), &Connection::is_up);
  }

  // Sends a command on each connection of the primary: an idle connection would not notice that the
  // primary's machine has vanished, and would count as up for ever.
  void ping_primary() {
    for (auto& connection : primary_->connections()) {
      if (!connection->is_up()) continue;
      connection->add_control(command_of({"PING"}), [](const Reply*) {});
      connection->flush();
    }
  }

  // Asks all sentinels now, and from time to time.
  void watch() {
    asked_at_ = Clock::now();
    watch_.set(primary_is_up() ? kAskAnyway : kAskAgain);
    for (Sentinel& sentinel : sentinels_) {
      if (sentinel.connection->is_up()) ask(sentinel);
    }
  }

  void ask(Sentinel& sentinel) {
    sentinel.connection->add_control(
        command_of({"SENTINEL", "get-master-addr-by-name", options_.primary_name}),
        [this, &sentinel](const Reply* reply) {
          if (reply == nullptr) return;
          if (!reply->is_error()) return on_answer(sentinel, *reply);
          set_none(sentinel, refusal(*sentinel.connection, "sentinel", reply->text));
        });
    sentinel.connection->flush();
  }

  void on_answer(Sentinel& sentinel, const Reply& reply) {
    const auto address = read_address(reply, sentinel.connection->endpoint());
    if (!address) {
      return set_none(sentinel, sentinel.connection->name() + " knows no primary '" +
                                    options_.primary_name + "'");
    }
    sentinel.named = address->text();
    if (primary_ && primary_->endpoint() == *address) return;
    // A primary that serves is left only if most sentinels say so: one of them may be cut off.
    const auto votes = std::ranges::count(sentinels_, sentinel.named, &Sentinel::named);
    const bool is_most = 2 * static_cast<std::size_t>(votes) > sentinels_.size();
    if (!trying_ && (is_most || !primary_is_up())) replace(*address);
  }

  // Requests that wait for the old primary go to the new one; calls in flight to the old one are
  // lost. Called when a sentinel has answered, so that no function of the old one runs.
  void replace(const Endpoint& address) {
    RequestList waiting;
    if (primary_) primary_->return_waiting(waiting);
    trying_ = true;
    primary_ = std::make_unique<Node>(options_, worker_, Purpose::kPrimary, address, *this);
    routes_known(std::move(waiting));
  }

  std::vector<Sentinel> sentinels_;
  std::unique_ptr<Node> primary_;
  // Whether an attempt to reach the primary named last is under way. Answers of other sentinels,
  // which may not know that primary yet, do not end it.
  bool trying_ = false;
  Clock::time_point asked_at_;
  IoTimer watch_;  // When to ask all sentinels again.
};

}  // namespace

std::unique_ptr<RedisRouter> make_sentinel_router(const RedisOptions& options,
                                                  RemoteWorker& worker) {
  return std::make_unique<SentinelRouter>(options, worker);
}

}  // namespace sluice::redis
