#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/request_pipeline.h"
#include "stores/redis/handshake.h"
#include "stores/redis/redis_options.h"
#include "stores/redis/resp.h"
#include "stores/redis/script_call.h"
#include "stores/remote/remote_worker.h"
#include "stores/remote/server_health.h"

namespace sluice::redis {

class Connection;

/// What a connection tells.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual void on_up(Connection& connection) = 0;
  /// The connection is lost, or an attempt to connect has failed.
  virtual void on_down(Connection& connection, std::string_view why) = 0;
  /// The server has refused the request with the error `text`: it was not carried out, and is the
  /// owner's again.
  virtual void on_refused(PendingRequest& request, Connection& connection,
                          std::string_view text) = 0;
};

/// What a connection is made with.
struct ConnectionSettings {
  const RedisOptions& options;
  RemoteWorker& worker;
  HandshakeUser::Purpose purpose = HandshakeUser::Purpose::kDecisions;
  /// The requests of one call share their slot: the server is a node of a cluster.
  bool one_slot = false;
  std::size_t max_in_flight = 2;
};

/// One connection to one server: requests gather while others are under way, and what has gathered
/// travels as one call of the script. Belongs to the thread that leads the worker.
class Connection final : public HandshakeUser {
 public:
  /// Is given the reply, or null and the reason why there is none.
  using Answer = std::function<void(const Reply* reply, std::string_view why)>;

  Connection(const ConnectionSettings& settings, const Endpoint& endpoint, ConnectionOwner& owner);
  /// Fails the requests that are still here.
  ~Connection() override;

  void start() { pipeline_.start(); }
  /// Sends what was brought before.
  void flush() { pipeline_.flush(); }
  /// Gives the connection up: nothing waits for the server until it has answered the next
  /// handshake. `why` names the server.
  void reconnect(std::string_view why);

  /// Takes a request, to be sent at the next flush(); where the server is known to be lost, fails
  /// it at once. `asking`: the server has the key but not yet the slot, and is told so by ASKING.
  void add(PendingRequest& request, bool asking = false);
  /// Asks something else than decisions: CLUSTER SLOTS, SENTINEL, SCAN.
  void ask(std::string command, Answer answer);

  /// Forgets a request that it has.
  static void abandon(PendingRequest& request);
  /// Moves all requests that wait to `list`, but those that were sent to this server alone.
  void return_waiting(RequestList& list);

  bool is_up() const { return pipeline_.is_up(); }
  /// An attempt to reach the server has failed, and none has succeeded since.
  bool is_broken() const { return health_.is_broken(); }
  const Endpoint& endpoint() const { return endpoint_; }
  /// What is said of a decision that has not come in time.
  const std::string& late() const { return health_.late(); }

  Command* next_command() override;
  void on_up() override;
  void on_down(std::string_view why) override;

 private:
  class Call;
  class Control;

  std::string_view error() const;
  Call* next_call(RequestList& from);
  void fill(Call& call, RequestList& from);
  void release(std::unique_ptr<Call> call);
  void on_reply(Call& call, std::string_view reply);
  void read(Call& call, std::string_view reply);
  void on_error(Call& call, std::string_view text);
  void on_lost(Call& call, Loss loss, std::string_view why);
  void fail_waiting(std::string_view why);
  void fail_controls(std::string_view why);

  const ConnectionSettings settings_;
  const Endpoint endpoint_;
  ServerHealth health_;
  ConnectionOwner& owner_;

  RequestList queue_;
  RequestList again_;   // Go before queue_: they were sent or about to be, and not carried out.
  RequestList asking_;  // Go first, after an ASKING.
  std::deque<std::unique_ptr<Control>> controls_;       // To be sent.
  std::deque<std::unique_ptr<Control>> sent_controls_;  // In flight, oldest first.
  std::deque<std::unique_ptr<Call>> in_flight_;         // Oldest first.
  std::vector<std::unique_ptr<Call>> idle_calls_;       // Are used again, with their memory.
  std::uint64_t script_loads_ = 0;                      // How often the script was loaded again.
  // Of a call: its reply names it. Other connections have other numbers.
  std::uint32_t next_number_;
  bool closing_ = false;
  RequestPipeline pipeline_;  // Last: what is in flight when it goes is lost first.
};

}  // namespace sluice::redis
