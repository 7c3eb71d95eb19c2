#pragma once

#include <chrono>
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
#include "stores/redis/redis_options.h"
#include "stores/redis/resp.h"
#include "stores/redis/script_call.h"
#include "stores/remote/remote_worker.h"

namespace sluice::redis {

class Connection;

/// Learns what happens to a connection and its requests: the RedisRouter, or the Subscriber.
class ConnectionListener {
 public:
  virtual ~ConnectionListener() = default;
  virtual void on_up(Connection& connection) = 0;
  /// The connection is lost, or an attempt to connect has failed.
  virtual void on_down(Connection& /*connection*/, std::string_view /*why*/) {}
  /// The server has answered a call with the error, or one of its requests with READONLY. What that
  /// says of the routes holds for the next requests. Called before on_refused(), and for a call
  /// even if none of its requests is left.
  virtual void on_error(Connection& /*connection*/, const ServerError& /*error*/) {}
  /// The server has refused the call of the request. The connection has forgotten the request: the
  /// listener decides what happens to it. The caller of a late request has been answered, so it is
  /// not sent again.
  virtual void on_refused(PendingRequest& /*request*/, Connection& /*connection*/,
                          const ServerError& /*error*/) {}
  /// As PipelineUser::on_push(), of a subscriber's connection.
  virtual bool on_push(Connection& /*connection*/, std::string_view /*reply*/) { return false; }
};

/// One connection to one server. Requests that arrive while calls are in flight wait in queue_;
/// when the pipeline asks for the next command, next_command() puts as many of them as fit into one
/// call of the script. Used only by the thread that leads the worker.
class Connection final : public PipelineUser {
 public:
  enum class Purpose : std::uint8_t {
    kNode,        ///< Decisions, of a node of a cluster, which redirects if it is a replica.
    kPrimary,     ///< Decisions, of a server that must not be a replica.
    kSubscriber,  ///< Receives published messages.
    kSentinel,    ///< A sentinel, with a user of its own; it has no database and runs no script.
  };

  /// How often the Subscriber sends a PING. Its connection is given up if the server does not
  /// answer a command within this time.
  static constexpr std::chrono::milliseconds kSubscriberBeat{1'000};
  /// A request that is redirected, or finds no script, more often than this fails.
  static constexpr int kMaxTries = 5;

  /// Called with the reply, which may be an error, or with null if there is none or it cannot be
  /// read.
  using Answer = std::function<void(const Reply* reply)>;

  /// Begins to connect, but calls `listener` only later. `options`, `worker` and `listener` outlive
  /// it.
  Connection(const RedisOptions& options, RemoteWorker& worker, Purpose purpose,
             const Endpoint& endpoint, ConnectionListener& listener);
  /// Fails the requests that it still has.
  ~Connection() override;

  /// Sends what was given to add() and add_control() before.
  void flush() { pipeline_->flush(); }
  /// As RequestPipeline::reconnect().
  void reconnect(std::string_view why) { pipeline_->reconnect(why); }

  /// Takes a request, which is sent at the next flush(). Fails it at once if the circuit breaker is
  /// open or the server is silent (RequestPipeline::why_not()). `asking`: the slot is moving to
  /// this server (an ASK redirection), so the call is preceded by ASKING.
  void add(PendingRequest& request, bool asking = false);
  /// Sends a command other than a call of the script, such as CLUSTER SLOTS, SENTINEL or SCAN, at
  /// the next flush(). Without an `answer`, one that has no reply, as SUBSCRIBE: what the server
  /// says of it is pushed.
  void add_control(std::string command, Answer answer);
  /// Whether some of them are not sent yet.
  bool has_unsent_control() const { return !controls_.empty(); }

  /// When the call that carries this request was sent, or the oldest command in flight.
  std::optional<RemoteWorker::Clock::time_point> sent_at(const PendingRequest& request) const;
  /// Forgets a request, whether it waits or is in flight.
  static void abandon(PendingRequest& request);
  /// Moves the waiting requests to `list`, except those of ASK redirections, which only this server
  /// can answer.
  void return_waiting(RequestList& list);

  /// The beginning of error sentences: "redis 127.0.0.1:6379".
  const std::string& name() const { return name_; }
  bool is_up() const { return pipeline_->is_up(); }
  bool is_broken() const { return pipeline_->is_broken(); }
  const Endpoint& endpoint() const { return endpoint_; }

  std::unique_ptr<Command> next_command() override;
  std::string handshake() override { return handshake_; }
  std::size_t handshake_replies() override { return may_fail_.size(); }
  std::optional<std::string> on_handshake_reply(std::size_t i, std::string_view reply) override;
  std::unique_ptr<Framing> make_framing() override { return std::make_unique<RespFraming>(); }
  void on_up() override;
  void on_down(std::string_view why, bool is_broken) override;
  bool on_push(std::string_view reply) override {
    return purpose_ == Purpose::kSubscriber && listener_.on_push(*this, reply);
  }

 private:
  class Call;
  class Control;

  bool decides() const { return purpose_ == Purpose::kNode || purpose_ == Purpose::kPrimary; }
  PipelineOptions pipeline_options() const;
  void make_handshake();
  void add_to_handshake(std::initializer_list<std::string_view> command, bool may_fail = false);
  std::unique_ptr<Call> next_call(RequestList& from);
  void fill(Call& call, RequestList& from);
  void on_reply(Call& call, std::string_view reply);
  void read(Call& call, std::string_view reply, RemoteWorker::Clock::time_point arrived);
  void note_clock(const Call& call);
  void compare_clocks();
  void on_error(Call& call, std::string_view text);
  void on_lost(Call& call, Loss loss, std::string_view why);
  void fail_waiting(std::string_view why);
  void fail_controls();

  const RedisOptions& options_;
  RemoteWorker& worker_;
  const Purpose purpose_;
  const Endpoint endpoint_;
  const std::string name_;
  ConnectionListener& listener_;
  std::optional<StoreMonitor::Server> monitored_;  // If it decides.
  std::string handshake_;
  std::vector<bool> may_fail_;  // Each command of the handshake.

  RequestList queue_;
  RequestList again_;   // Sent before queue_: the server has not executed them the first time.
  RequestList asking_;  // Sent first, after an ASKING.
  std::deque<std::unique_ptr<Control>> controls_;  // To be sent.
  bool loads_script_ = false;                      // The script is being loaded again.
  // The number of the next call, which its reply repeats. Connections begin at random numbers.
  std::uint32_t next_number_;
  const std::string clock_;  // "the clock of redis 127.0.0.1:6379"
  Instant newest_ = 0;       // The latest instant at which a call was decided by the store's time.
  // Last: when it goes, it calls on_lost() of the calls in flight.
  const std::shared_ptr<RequestPipeline> pipeline_;
};

}  // namespace sluice::redis
