#include "stores/redis/connection.h"

#include <algorithm>
#include <random>
#include <utility>

#include "core/read_number.h"
#include "stores/redis/redis_space.h"

namespace sluice::redis {
namespace {

// The most requests examined for one call, since those of other slots are passed over.
constexpr std::size_t kMaxLookedAt = 512;

// Whether it is the reply to ROLE or HELLO, and says so.
bool is_replica(const Reply& reply) {
  const std::vector<Reply>& words = reply.elements;
  if (words.empty()) return false;
  if (words[0].text == "slave") return true;
  const auto role = std::ranges::find(words, "role", &Reply::text);
  return words.end() - role > 1 && role[1].text == "replica";
}

}  // namespace

// A command other than a call of the script.
class Connection::Control final : public Command {
 public:
  Control(Connection& connection, std::string command, Answer answer)
      : connection_(connection), command_(std::move(command)), answer_(std::move(answer)) {}

  std::size_t replies() const override { return answer_ ? 1 : 0; }
  void write(std::string& output) override { output += command_; }
  void on_reply(std::string_view reply) override {
    const std::optional<Reply> tree = read_reply(reply);
    if (tree) return answer_(&*tree);
    connection_.reconnect(connection_.name() + kNotToThis);
    answer_(nullptr);
  }
  void on_lost(Loss, std::string_view) override {
    if (answer_) answer_(nullptr);
  }

  // After such a reply, no later one can be trusted.
  static constexpr const char* kNotToThis = " sent a reply that is not to what it was asked";

 private:
  Connection& connection_;
  const std::string command_;
  const Answer answer_;
};

// One call of the script, and the requests it carries.
class Connection::Call final : public Command {
 public:
  Call(Connection& connection, Instant call_now, bool follows_asking)
      : now(call_now),
        asking(follows_asking),
        script(connection.options_, now, connection.next_number_++),
        connection_(connection) {}

  std::size_t replies() const override { return asking ? 2 : 1; }
  void write(std::string& output) override {
    sent_at = RemoteWorker::Clock::now();
    // If the server refuses it, it refuses the call that follows as well.
    if (asking) output += command_of({"ASKING"});
    script.write(output);
  }
  void on_reply(std::string_view reply) override { connection_.on_reply(*this, reply); }
  void on_lost(Loss loss, std::string_view why) override { connection_.on_lost(*this, loss, why); }

  // Calls `to` with each request that was not forgotten, which does not belong to the call any
  // more.
  template <typename To>
  void hand_over(bool may_be_executed, To to) {
    for (PendingRequest* const request : script.requests()) {
      if (request == nullptr) continue;
      request->holder = nullptr;
      request->may_be_executed = may_be_executed;
      to(*request);
    }
  }
  std::size_t size() const { return script.requests().size(); }

  const Instant now;
  const bool asking;
  ScriptCall script;
  RemoteWorker::Clock::time_point sent_at;

 private:
  Connection& connection_;
};

Connection::Connection(const RedisOptions& options, RemoteWorker& worker, Purpose purpose,
                       const Endpoint& endpoint, ConnectionListener& listener)
    : options_(options),
      worker_(worker),
      purpose_(purpose),
      endpoint_(endpoint),
      name_("redis " + endpoint.text()),
      listener_(listener),
      next_number_(std::random_device{}()),
      clock_("the clock of " + name_),
      pipeline_(RequestPipeline::make(worker.context(), pipeline_options(), *this)) {
  if (decides()) monitored_.emplace(worker.monitor());
  make_handshake();
  pipeline_->start();
}

// On a cluster a call has one slot, so that many calls are needed to keep a node busy.
PipelineOptions Connection::pipeline_options() const {
  PipelineOptions options = worker_.pipeline_options(endpoint_);
  options.max_in_flight = options_.topology == Topology::kCluster ? 64 : 2;
  if (purpose_ == Purpose::kSubscriber) options.silence_timeout = kSubscriberBeat;
  return options;
}

void Connection::make_handshake() {
  const bool is_sentinel = purpose_ == Purpose::kSentinel;
  const std::string& user = is_sentinel ? options_.sentinel_user : options_.user;
  const std::string& password = is_sentinel ? options_.sentinel_password : options_.password;
  if (!user.empty()) {
    add_to_handshake({"AUTH", user, password});
  } else if (!password.empty()) {
    add_to_handshake({"AUTH", password});
  }
  if (decides() && options_.database != 0) {
    add_to_handshake({"SELECT", std::to_string(options_.database)});
  }
  // Before commands that may be refused: the first reply to a client without access says so.
  add_to_handshake({"PING"});
  // A server that knows users knows HELLO, too, which every user may send, and which tells the role
  // of the server. CLIENT SETNAME and ROLE may be refused, and the refusal would be in the server's
  // log of security events.
  if (user.empty()) {
    add_to_handshake({"CLIENT", "SETNAME", "sluice"}, true);
    if (purpose_ == Purpose::kPrimary) add_to_handshake({"ROLE"}, true);
  } else {
    add_to_handshake({"HELLO", "2", "SETNAME", "sluice"}, true);
  }
  if (!decides()) return;
  add_to_handshake({"SCRIPT", "LOAD", script_text()});
  // A call without requests, since CLIENT PAUSE may let only writes and scripts wait.
  ScriptCall(options_, kStoreTime, 0).write(handshake_);
  may_fail_.push_back(true);
}

void Connection::add_to_handshake(std::initializer_list<std::string_view> command, bool may_fail) {
  may_fail_.push_back(may_fail);
  handshake_ += command_of(command);
}

std::optional<std::string> Connection::on_handshake_reply(std::size_t i, std::string_view reply) {
  if (reply.front() == '-') {
    if (may_fail_.at(i)) return std::nullopt;
    return name() + ": " + std::string(read_server_error(error_text(reply)).text);
  }
  if (purpose_ != Purpose::kPrimary) return std::nullopt;
  const std::optional<Reply> role = read_reply(reply);
  if (!role || !is_replica(*role)) return std::nullopt;
  return name() + " is a replica, not the primary";
}

Connection::~Connection() {
  fail_waiting(name() + " is not used now");
  fail_controls();
}

void Connection::fail_waiting(std::string_view why) {
  for (RequestList* list : {&again_, &queue_, &asking_}) {
    while (!list->empty()) worker_.fail(list->pop_front(), why);
  }
}

// An Answer may call add_control() again: that new command must not fail with these.
void Connection::fail_controls() {
  const auto lost = std::exchange(controls_, {});
  for (const auto& control : lost) control->on_lost(Loss::kUnsent, {});
}

void Connection::add(PendingRequest& request, bool asking) {
  const std::string_view why = pipeline_->why_not(worker_.monitor().all_read_at());
  if (!why.empty()) return worker_.fail(request, why);
  (asking ? asking_ : queue_).push_back(request);
}

void Connection::add_control(std::string command, Answer answer) {
  controls_.push_back(std::make_unique<Control>(*this, std::move(command), std::move(answer)));
}

std::optional<RemoteWorker::Clock::time_point> Connection::sent_at(
    const PendingRequest& request) const {
  if (request.holder != nullptr) return static_cast<const Call*>(request.holder)->sent_at;
  return pipeline_->waiting_since();
}

void Connection::abandon(PendingRequest& request) {
  request.unlink();
  request.may_be_executed = request.holder != nullptr;
  if (request.holder == nullptr) return;
  static_cast<Call*>(std::exchange(request.holder, nullptr))->script.forget(request);
}

void Connection::return_waiting(RequestList& list) {
  list.append(again_);
  list.append(queue_);
}

std::unique_ptr<Command> Connection::next_command() {
  if (!controls_.empty()) {
    std::unique_ptr<Control> first = std::move(controls_.front());
    controls_.pop_front();
    return first;
  }
  // Calls that were sent before the script was loaded again will fail with NOSCRIPT too, all before
  // the reply to that. Wait for it, so that their requests are sent again before later ones.
  if (loads_script_) return nullptr;
  for (RequestList* from : {&asking_, &again_, &queue_}) {
    if (auto call = next_call(*from)) return call;
  }
  return nullptr;
}

// Null if `from` has no request that fits into a call.
std::unique_ptr<Connection::Call> Connection::next_call(RequestList& from) {
  while (!from.empty()) {
    auto call = std::make_unique<Call>(*this, from.front().now, &from == &asking_);
    fill(*call, from);
    if (call->size() != 0) return call;
  }
  return nullptr;
}

// Moves the first requests that fit into one call from the list into `call`: all of one instant
// and, on a cluster, of one slot. Fails the requests that do not fit into a call of their own.
void Connection::fill(Call& call, RequestList& from) {
  const std::uint16_t slot = from.front().slot;
  std::size_t looked_at = 0;
  for (auto at = from.begin(); at != from.end() && looked_at < kMaxLookedAt; ++looked_at) {
    PendingRequest& request = *at++;
    if (request.now != call.now) return;
    if (options_.topology == Topology::kCluster && request.slot != slot) continue;
    if (request.alone && call.size() != 0) return;
    const bool fits = call.script.add(request);
    if (!fits && call.size() != 0) return;
    request.unlink();
    if (!fits) {
      worker_.fail(request, "the key is too long: a call to " + name() + " has at most " +
                                std::to_string(ScriptCall::kMaxBytes) + " bytes");
      continue;  // The request may be destroyed now.
    }
    request.holder = &call;
    if (request.alone) return;
  }
}

void Connection::on_reply(Call& call, std::string_view reply) {
  const RemoteWorker::Clock::time_point arrived = RemoteWorker::Clock::now();
  worker_.monitor().on_reply(call.sent_at, arrived);
  if (reply.front() == '-') {
    on_error(call, error_text(reply));
  } else {
    read(call, reply, arrived);
  }
}

// A request that the reply does not answer may have been executed, even if the reply belongs to
// another call: it is not sent again.
void Connection::read(Call& call, std::string_view reply, RemoteWorker::Clock::time_point arrived) {
  bool is_noted = false;
  const bool is_read = call.script.read(reply, [&](PendingRequest& request, std::string_view why) {
    request.holder = nullptr;
    if (why.empty()) {
      // Before the caller is told, which may look at the store's health then.
      note_clock(call);
      is_noted = true;
      worker_.complete(request, arrived);
    } else {
      const ServerError error = read_server_error(why);
      if (error.kind == ServerError::Kind::kReadOnly) listener_.on_error(*this, error);
      worker_.refuse(request, name() + ": " + std::string(error.text),
                     " (key " + names_of(request.requests) + ")");
    }
  });
  if (!is_read) return reconnect(name() + Control::kNotToThis);
  if (!is_noted) note_clock(call);  // The callers have gone.
}

// A request was decided. The clock is behind if it was later before, or if the key's state was
// written by a later one. (With time=client the call may have been under way for long: a state that
// was written meanwhile is later than the instant of the call.)
void Connection::note_clock(const Call& call) {
  if (call.now != kStoreTime) return;
  newest_ = std::max(newest_, call.script.judged_at());
  const Instant now = options_.client_time ? wall_now() : call.script.judged_at();
  worker_.monitor().on_clock(
      options_.client_time ? StoreMonitor::kOwnClock : clock_,
      std::chrono::nanoseconds(std::max(newest_, call.script.written_at()) - now));
}

// The server has executed nothing of the call, unless the error says that it may have.
void Connection::on_error(Call& call, std::string_view text) {
  using Kind = ServerError::Kind;
  const ServerError error = read_server_error(text);
  const Kind kind = error.kind;
  // Even if the callers have gone: the next requests would get the same error.
  if (kind == Kind::kLoading || kind == Kind::kNoAuth) reconnect(name() + ": " + std::string(text));
  if (kind == Kind::kNoScript && !loads_script_) {
    loads_script_ = true;
    add_control(command_of({"SCRIPT", "LOAD", script_text()}),
                [this](const Reply*) { loads_script_ = false; });
  }
  listener_.on_error(*this, error);
  // If the user has no permission for some key of several, or while they move to another node, send
  // each alone: then only that one fails, or none.
  const bool apart = (kind == Kind::kNoPerm || kind == Kind::kTryAgain) && call.size() > 1;
  call.hand_over(error.may_be_executed, [&](PendingRequest& request) {
    // Behind a balancer, each command may come to another server.
    const bool may_be_retried = kind == Kind::kNoScript ? ++request.tries <= kMaxTries : apart;
    if (!may_be_retried || request.is_late) return listener_.on_refused(request, *this, error);
    request.is_again = true;
    request.alone = request.alone || apart;
    (call.asking ? asking_ : again_).push_back(request);
  });
}

void Connection::on_lost(Call& call, Loss loss, std::string_view why) {
  call.hand_over(loss == Loss::kMayBeExecuted, [&](PendingRequest& request) {
    request.is_again = true;
    if (loss == Loss::kUnsent && !request.is_late) {
      (call.asking ? asking_ : again_).push_back(request);
    } else {
      worker_.fail(request, why);
    }
  });
}

// With time=client: other processes may have written by a later clock, as the server's is.
void Connection::compare_clocks() {
  add_control(command_of({"TIME"}), [this](const Reply* reply) {
    if (reply == nullptr || reply->elements.size() != 2) return;
    std::int64_t seconds = 0;
    if (!read_number(reply->elements[0].text, seconds)) return;
    if (seconds < 0 || seconds >= kEndOfTime / kSecondNs) return;
    worker_.monitor().on_clock(StoreMonitor::kOwnClock, std::chrono::seconds(seconds) -
                                                            std::chrono::nanoseconds(wall_now()));
  });
}

void Connection::on_up() {
  if (monitored_) monitored_->on_up();
  if (options_.client_time && !options_.virtual_time && decides()) compare_clocks();
  listener_.on_up(*this);
}

void Connection::on_down(std::string_view why, bool is_broken) {
  if (is_broken && monitored_) monitored_->on_broken(why);
  fail_controls();
  if (is_broken) fail_waiting(why);
  listener_.on_down(*this, why);
}

}  // namespace sluice::redis
