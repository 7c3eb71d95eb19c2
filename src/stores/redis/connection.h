#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/request_pipeline.h"
#include "stores/redis/handshake.h"
#include "stores/redis/redis_options.h"
#include "stores/redis/reply.h"
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
  /// The server has refused the request, or it was never sent: it was not carried out, and is the
  /// owner's again. `text` is the error, empty where it was not sent.
  virtual void on_refused(PendingRequest& request, Connection& connection,
                          std::string_view text) = 0;
};

/// What a connection is made with.
struct ConnectionSettings {
  const RedisOptions& options;
  RemoteWorker& worker;
  Handshake::Purpose purpose = Handshake::Purpose::kDecisions;
  /// The requests of one call share their slot: the server is a node of a cluster.
  bool one_slot = false;
  std::size_t max_in_flight = 2;
  /// Of the first call; any where it is not given, so that other connections have other numbers.
  std::optional<std::uint32_t> first_number = {};
};

/// One connection to one server: requests gather while others are under way, and what has gathered
/// travels as one call of the script. Belongs to the thread that leads the worker.
class Connection final : public ConnectionUser {
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
  /// it at once.
  void add(PendingRequest& request);
  /// The same, for a server that has the key but not yet the slot: after ASKING.
  void add_asking(PendingRequest& request);
  /// Asks something else than decisions: CLUSTER SLOTS, SENTINEL, SCAN.
  void ask(std::initializer_list<std::string_view> command, Answer answer);
  void ask(std::string command, Answer answer);

  /// Forgets a request that it has.
  static void abandon(PendingRequest& request);
  /// Hands all requests that wait to `list`, but those that were sent to this server alone.
  void give_back(RequestList& list);

  bool is_up() const { return pipeline_.is_up(); }
  /// An attempt to reach the server has failed, and none has succeeded since.
  bool is_broken() const { return health_.is_broken(); }
  const Endpoint& endpoint() const { return endpoint_; }
  /// "redis 127.0.0.1:6379".
  const std::string& name() const { return health_.server(); }
  /// What is said of a decision that has not come in time.
  const std::string& late() const { return health_.late(); }

  Command* next_command() override;
  std::string handshake() override { return handshake_.text(); }
  std::size_t handshake_replies() override { return handshake_.replies(); }
  std::optional<std::string> on_handshake_reply(std::size_t i, std::string_view reply) override;
  std::unique_ptr<Framing> make_framing() override;
  void on_up() override;
  void on_down(std::string_view why) override;

 private:
  class Call;
  class Control;

  std::string_view error() const;
  Call* next_call(RequestList& from);
  void fill(Call& call, RequestList& from);
  void release(Call& call);
  Command* next_control();
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
  const Handshake handshake_;

  RequestList queue_;
  RequestList again_;   // Go before queue_: they were sent or about to be, and not carried out.
  RequestList asking_;  // Go first, after an ASKING.
  std::deque<std::unique_ptr<Control>> controls_;       // To be sent.
  std::deque<std::unique_ptr<Control>> sent_controls_;  // Sent, oldest first.
  std::deque<Call*> in_flight_;                         // Oldest first.
  std::vector<std::unique_ptr<Call>> calls_;            // At most max_in_flight, used in turn.
  std::vector<Call*> idle_calls_;
  std::uint64_t script_loads_ = 0;  // How often the script was loaded again.
  std::uint32_t next_number_;       // Of a call: its reply names it.
  bool closing_ = false;
  RequestPipeline pipeline_;  // Last: what is in flight when it goes is lost first.
};

/// How the calls of a store are made.
CallOptions call_options(const RedisOptions& options);

}  // namespace sluice::redis
