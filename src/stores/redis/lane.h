#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/pipeline.h"
#include "stores/redis/greeting.h"
#include "stores/redis/redis_options.h"
#include "stores/redis/reply.h"
#include "stores/redis/script_call.h"
#include "stores/redis/server_error.h"
#include "stores/remote/courier.h"
#include "stores/remote/server_health.h"

namespace sluice::redis {

class Lane;

/// What a lane tells, on the courier's thread.
class LaneOwner {
 public:
  virtual ~LaneOwner() = default;
  virtual void on_up(Lane& lane) = 0;
  /// The connection is lost, or an attempt to connect has failed.
  virtual void on_down(Lane& lane, std::string_view why) = 0;
  /// The server has refused the errand, or it was never sent: it was not carried out, and is the
  /// owner's again. `text` is the error, empty where it was not sent. Throws nothing.
  virtual void on_refused(Errand& errand, Lane& lane, std::string_view text) = 0;
};

/// A command asked outside the decisions: CLUSTER SLOTS, SENTINEL, SCAN.
class Control final : public Exchange {
 public:
  /// Is given the reply, or null and the reason why there is none.
  using Answer = std::function<void(const Reply* reply, std::string_view why)>;

  /// `lane` is given up where the reply cannot be read.
  Control(Lane& lane, std::string command, Answer answer)
      : lane_(lane), command_(std::move(command)), answer_(std::move(answer)) {}

  void write(std::string& output) override { output += command_; }
  void on_reply(std::string_view reply) override;
  void on_lost(Loss loss, std::string_view why) override;

  bool is_answered() const { return answer_ == nullptr; }

 private:
  Lane& lane_;
  std::string command_;
  Answer answer_;  // Null once it has been called.
};

/// What a lane is made with.
struct LaneSettings {
  const RedisOptions& options;
  Courier& courier;
  /// Sent on each new connection; empty for a sentinel, which runs no script.
  bool with_script = true;
  /// Refuse a server that says that it is a replica.
  bool must_be_primary = false;
  /// The errands of one call share their slot: the server is a node of a cluster.
  bool one_slot = false;
  std::size_t max_in_flight = 2;
};

/// One connection to one server: errands gather while others are under way, and what has gathered
/// travels as one call of the script. Lives on the courier's thread.
class Lane final : public PipelineUser {
 public:
  Lane(const LaneSettings& settings, const Endpoint& endpoint, LaneOwner& owner);
  /// Fails the errands that are still here.
  ~Lane() override;

  void start() { pipeline_.start(); }
  void kick() { pipeline_.kick(); }
  /// Gives the connection up: nobody waits for the server until it has greeted again.
  void reconnect(std::string_view why) {
    health_.give_up();
    pipeline_.reconnect(why);
  }

  /// The next call's number: the script's reply names it. On the thread that drives the connection,
  /// be it the courier's or a caller's own.
  std::uint32_t number_call() { return next_number_++; }
  /// A reply was none, or not to what was asked, so that nothing that follows can be trusted: gives
  /// the connection up, and with it all that is under way. From the on_reply() of what is asked
  /// here, on the thread that drives the connection.
  void lose_track() { give_up(" sent a reply that is not to what it was asked"); }
  /// The same where the server has said that it is a replica: another connection may lead to the
  /// primary, as after a failover that changes what a name or a balancer leads to.
  void leave_replica(std::string_view said) { give_up(": ", said); }

  /// Takes an errand, to be sent at the next kick(); where the server is known to be lost, fails it
  /// at once.
  void carry(Errand& errand);
  /// The same, for a server that has the key but not yet the slot: after ASKING.
  void carry_asking(Errand& errand);
  void ask(std::string command, Control::Answer answer);

  /// Forgets an errand it carries.
  static void abandon(Errand& errand);
  /// Hands all errands that wait to `list`, but those that have been sent to this server alone.
  void give_back(ErrandList& list) noexcept;

  bool is_up() const { return pipeline_.is_up(); }
  /// An attempt to reach the server has failed, and none has succeeded since.
  bool is_broken() const { return health_.is_broken(); }
  const Endpoint& endpoint() const { return endpoint_; }
  /// "redis 127.0.0.1:6379".
  const std::string& name() const { return health_.server(); }
  /// What is said of a decision that has not come in time. From any thread.
  const std::string& late() const { return health_.late(); }
  Pipeline& pipeline() { return pipeline_; }

  Exchange* next_exchange() override;
  std::string greeting() override { return greeting_.text(); }
  std::size_t greeting_replies() override { return greeting_.replies(); }
  std::optional<std::string> on_greeting(std::size_t i, std::string_view reply) override;
  std::unique_ptr<Framing> make_framing() override;
  void on_up() override;
  void on_down(std::string_view why) override;

 private:
  class Call;

  Call& make_call();
  Call* next_call(ErrandList& from);
  void fill(Call& call, ErrandList& from);
  void drop_asking(std::string_view why);
  Exchange* next_control();
  void on_reply(Call& call, std::string_view reply);
  void read(Call& call, std::string_view reply);
  void on_error(Call& call, std::string_view text);
  void on_lost(Call& call, Loss loss, std::string_view why);
  void fail_waiting(std::string_view why);
  void fail_controls(std::string_view why);
  void release(Call& call);
  void give_up(std::string_view why, std::string_view said = {});

  const LaneSettings settings_;
  const Endpoint endpoint_;
  ServerHealth health_;
  const std::string unused_;  // Why what is still here when it goes is not sent.
  LaneOwner& owner_;
  const CallOptions call_options_;

  ErrandList queue_;
  ErrandList again_;  // Go before queue_: they were sent or about to be, and not carried out.
  ErrandList asking_;
  Call* after_asking_ = nullptr;                        // Goes out next: ASKING has just gone.
  std::deque<std::unique_ptr<Control>> controls_;       // To be sent.
  std::deque<std::unique_ptr<Control>> sent_controls_;  // Sent, oldest first.
  std::deque<Call*> in_flight_;                         // Oldest first.
  std::vector<std::unique_ptr<Call>> calls_;            // All there are.
  std::vector<Call*> idle_calls_;
  const Greeting greeting_;
  std::uint64_t script_loads_ = 0;  // How often the script has been loaded again.
  // Of whoever drives the connection:
  std::uint32_t next_number_;  // From anywhere on: what another has asked has other numbers.
  bool giving_up_ = false;
  bool closing_ = false;
  Pipeline pipeline_;  // Last: what is in flight when it goes is lost first.
};

/// How the calls of a store are made.
CallOptions call_options(const RedisOptions& options);

}  // namespace sluice::redis
