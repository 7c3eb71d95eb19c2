#include "net/request_pipeline.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <cassert>
#include <cstdint>
#include <exception>
#include <utility>

#include "net/backoff.h"
#include "net/client_stream.h"
#include "net/command_queue.h"

namespace sluice {
namespace {

/// When this many bytes are unsent, they are sent before the user is asked for more commands.
constexpr std::size_t kUnsentBytes = std::size_t{64} * 1024;
/// How soon a silent server is checked again if bytes from it have arrived that were not received
/// yet, or may have: then this process is late, not the server.
constexpr std::chrono::milliseconds kLookAgain{1};

/// One coroutine, run(), connects, serves, and pauses before it connects again. Only it gives a
/// connection up: what goes wrong elsewhere calls fail(), which makes serve() end. serve() receives
/// and, at the same time, sends.
///
/// Its coroutine holds a share of it, until end() was called.
class CoroutinePipeline final : public RequestPipeline,
                                public std::enable_shared_from_this<CoroutinePipeline> {
 public:
  using Clock = IoContext::Clock;

  CoroutinePipeline(IoContext& context, PipelineOptions options, PipelineUser& user)
      : options_(std::move(options)),
        user_(user),
        server_(options_.endpoint.text()),
        executor_(context.asio()->get_executor()),
        stream_(std::make_shared<ClientStream>(context, options_.endpoint,
                                               options_.look_up ? options_.look_up : look_up_host)),
        silent_(server_ + " has not answered for a while"),
        backoff_(options_.least_pause, options_.most_pause),
        timer_(context, [this] { on_time(); }),
        silence_(context, [this] { on_silence(); }),
        work_(context),
        may_send_(executor_),
        pause_over_(executor_) {
    assert(options_.max_in_flight > 0);
  }

  void start() override;
  void flush() override;
  void reconnect(std::string_view why) override;
  bool is_up() const override { return phase_ == Phase::kUp && !failure_; }
  bool is_broken() const override { return !broken_.empty(); }
  std::string_view why_not(Clock::time_point all_read_at) const override;
  std::optional<Clock::time_point> waiting_since() const override {
    return queue_ ? queue_->waiting_since() : std::nullopt;
  }
  void end();

 private:
  enum class Phase : std::uint8_t { kNew, kConnecting, kHandshake, kUp, kBackoff, kEnded };

  /// Why the connection, or the attempt at one, is given up.
  struct Failure {
    std::string why;
    bool is_loss = false;    // The connection has ended by itself: the server may be usable.
    bool has_ended = false;  // The server has ended it, in order.
  };

  IoTask<void> run(std::shared_ptr<CoroutinePipeline> self);
  IoTask<void> serve();
  IoTask<void> receive();
  IoTask<void> send();
  void deliver();
  void answer(std::string_view reply);
  void on_handshake_done();
  void take_commands();
  void on_time();
  void on_silence();
  std::optional<Clock::time_point> silent_since() const;
  void fail(Failure failure);
  std::chrono::nanoseconds give_up();
  void lose_all(std::string_view why, bool all_sent);

  const PipelineOptions options_;
  PipelineUser& user_;
  const std::string server_;
  const IoExecutor executor_;
  const std::shared_ptr<ClientStream> stream_;
  const std::string silent_;
  Backoff backoff_;
  bool in_trouble_ = false;  // A failure that no lasting connection has followed.
  std::string broken_;       // Why the breaker is open; empty: it is closed.

  Phase phase_ = Phase::kNew;
  IoTimer timer_;    // At the end of the time for an attempt, or of a pause.
  IoTimer silence_;  // When a command will have been in flight for too long.
  IoContext::Work work_;
  std::optional<Failure> failure_;  // Set by fail(), until run() has given the connection up.
  std::optional<CommandQueue> queue_;
  std::size_t handshake_replies_ = 0;
  std::size_t handshake_answered_ = 0;  // How many replies to the handshake have arrived.
  Clock::time_point up_since_;
  Clock::time_point answered_at_;  // When a command was answered last.
  Clock::time_point looked_at_;    // When on_silence() was called last.
  IoEvent may_send_;               // Something is to be sent, commands may be, or serve() must end.
  IoEvent pause_over_;             // run() goes on.
  std::optional<Clock::time_point> sending_since_;  // The socket has taken nothing since then.
};

void CoroutinePipeline::start() {
  assert(phase_ == Phase::kNew);
  phase_ = Phase::kConnecting;
  work_.set(true);
  // An exception that escapes the coroutine ends the process.
  const auto ended = [](std::exception_ptr error) noexcept {
    if (error != nullptr) std::rethrow_exception(error);
  };
  boost::asio::co_spawn(executor_, run(shared_from_this()), ended);
}

IoTask<void> CoroutinePipeline::run(std::shared_ptr<CoroutinePipeline> /*self*/) {
  // co_spawn() may run this at once. But the user may still be in its constructor.
  co_await boost::asio::post(kAwait);
  while (phase_ != Phase::kEnded) {
    failure_.reset();
    phase_ = Phase::kConnecting;
    timer_.set(options_.connect_timeout);
    std::string error = co_await stream_->connect();
    if (!error.empty()) fail({.why = std::move(error)});
    if (!failure_) co_await serve();
    if (phase_ == Phase::kEnded) break;
    timer_.set(give_up());
    co_await pause_over_.wait();
  }
}

IoTask<void> CoroutinePipeline::serve() {
  using boost::asio::experimental::awaitable_operators::operator&&;
  phase_ = Phase::kHandshake;
  queue_.emplace(user_.make_framing(), options_.max_reply_bytes);
  sending_since_.reset();
  handshake_answered_ = 0;
  handshake_replies_ = user_.handshake_replies();
  queue_->add_handshake(user_.handshake());
  timer_.set(options_.handshake_timeout);
  if (handshake_replies_ == 0) on_handshake_done();
  co_await (receive() && send());
}

IoTask<void> CoroutinePipeline::receive() {
  while (!failure_) {
    boost::system::error_code error;
    const std::size_t bytes = co_await stream_->receive(queue_->room(), error);
    queue_->received(bytes);
    deliver();
    if (error) {
      const std::string reason = ClientStream::reason_of(error);
      fail({.why = reason.empty() ? server_ + " closed the connection"
                                  : "the connection to " + server_ + " failed: " + reason,
            .is_loss = true,
            .has_ended = reason.empty()});
    }
    take_commands();  // Replies have made room for them.
  }
}

IoTask<void> CoroutinePipeline::send() {
  while (!failure_) {
    if (queue_->unsent().empty()) {
      co_await may_send_.wait();
      // flush() has found the connection idle. receive() comes first: if it learns that the server
      // has closed the connection, no command is taken for it.
      if (queue_->unsent().empty()) co_await boost::asio::post(kAwait);
      take_commands();
      continue;
    }
    boost::system::error_code error;
    sending_since_ = Clock::now();
    queue_->begin_sending(*sending_since_);
    if (!silence_.is_set()) silence_.set_at(*sending_since_ + options_.silence_timeout);
    const std::size_t bytes = co_await stream_->send(queue_->unsent(), error);
    queue_->sent(bytes);
    // receive() still reads the replies that the server sent before it closed the connection, and
    // the reason. If it finds none, the server counts as one that does not receive.
    if (error) co_return;
    sending_since_.reset();
    take_commands();
  }
}

void CoroutinePipeline::deliver() {
  while (!failure_) {
    const std::optional<std::string_view> reply = queue_->next_reply();
    if (reply) answer(*reply);
    if (!queue_->error().empty()) fail({.why = server_ + " " + queue_->error()});
    if (!reply) return;
    queue_->drop_reply();
  }
}

void CoroutinePipeline::answer(std::string_view reply) {
  if (phase_ == Phase::kUp) {
    if (user_.on_push(reply)) return;
    if (const auto command = queue_->answered()) command->on_reply(reply);
    answered_at_ = Clock::now();
    return;
  }
  if (std::optional<std::string> refusal = user_.on_handshake_reply(handshake_answered_, reply)) {
    return fail({.why = std::move(*refusal)});
  }
  if (++handshake_answered_ == handshake_replies_) on_handshake_done();
}

void CoroutinePipeline::on_handshake_done() {
  phase_ = Phase::kUp;
  timer_.cancel();
  up_since_ = Clock::now();
  broken_.clear();
  user_.on_up();
  take_commands();
}

void CoroutinePipeline::flush() {
  if (!is_up()) return;
  work_.set(true);
  const bool is_idle = queue_->in_flight() == 0 && queue_->unsent().empty();
  if (!is_idle) return take_commands();
  may_send_.notify();  // send() takes them, after what has arrived.
}

/// Takes commands from the user. Takes none while earlier ones are unsent: send() then calls this
/// when it has sent them.
void CoroutinePipeline::take_commands() {
  if (!is_up() || !queue_->unsent().empty()) return;
  while (queue_->in_flight() < options_.max_in_flight && queue_->unsent().size() < kUnsentBytes) {
    std::unique_ptr<Command> command = user_.next_command();
    if (command == nullptr) break;
    queue_->add(std::move(command), Clock::now());
  }
  const auto since = queue_->waiting_since();
  work_.set(since.has_value());
  if (since && !silence_.is_set()) silence_.set_at(*since + options_.silence_timeout);
  if (!queue_->unsent().empty()) may_send_.notify();
}

void CoroutinePipeline::on_time() {
  if (phase_ == Phase::kBackoff) return pause_over_.notify();
  const auto within = [](std::chrono::milliseconds limit) {
    return " within " + std::to_string(limit.count()) + " ms";
  };
  fail({.why = phase_ == Phase::kConnecting
                   ? "cannot " + stream_->doing() + within(options_.connect_timeout)
                   : server_ + " has not completed the handshake" +
                         within(options_.handshake_timeout)});
}

/// When the oldest command in flight was sent, or since when the server does not even receive, if
/// that is earlier: a command without a reply is never in flight.
std::optional<IoContext::Clock::time_point> CoroutinePipeline::silent_since() const {
  const auto since = queue_->waiting_since();
  return since && sending_since_ ? std::min(since, sending_since_) : since ? since : sending_since_;
}

/// Of the records that arrive together over TLS, each is handed over by an event of its own, and
/// the socket is empty meanwhile. A read that is ready runs before the next event of a timer. So if
/// a command was answered since the last look, it looks again: those records are read by then.
void CoroutinePipeline::on_silence() {
  const Clock::time_point now = Clock::now();
  const Clock::time_point looked_at = std::exchange(looked_at_, now);
  const auto since = is_up() ? silent_since() : std::nullopt;
  if (!since) return;
  const Clock::time_point end = *since + options_.silence_timeout;
  if (now < end) {
    silence_.set_at(end);
  } else if (stream_->has_unread() || answered_at_ > looked_at) {
    silence_.set(kLookAgain);
  } else {
    fail({.why = server_ + " has not answered for " +
                 std::to_string(options_.silence_timeout.count()) + " ms"});
  }
}

std::string_view CoroutinePipeline::why_not(Clock::time_point all_read_at) const {
  const auto since = waiting_since();
  const bool is_silent = since && all_read_at - std::max(*since, answered_at_) > options_.patience;
  return is_silent ? silent_ : broken_;
}

void CoroutinePipeline::reconnect(std::string_view why) {
  if (phase_ != Phase::kConnecting && phase_ != Phase::kHandshake && phase_ != Phase::kUp) return;
  fail({.why = std::string(why)});
}

/// Makes serve() or connect() end, so that run() gives the connection up. Only the first failure
/// counts: others follow from it.
void CoroutinePipeline::fail(Failure failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  work_.set(true);
  // With commands in flight, reset the connection: otherwise the kernel would go on sending them,
  // and the server might execute them much later.
  stream_->close(!failure_->has_ended && queue_ && queue_->in_flight() != 0);
  may_send_.notify();
}

/// Returns how long to wait before the next attempt.
std::chrono::nanoseconds CoroutinePipeline::give_up() {
  const Failure failure = *std::exchange(failure_, std::nullopt);
  const Phase before = std::exchange(phase_, Phase::kBackoff);
  const bool was_up = before == Phase::kUp;
  // Without the time since the oldest unanswered command was sent: the server may answer handshakes
  // only.
  if (was_up && silent_since().value_or(Clock::now()) - up_since_ >= options_.most_pause) {
    in_trouble_ = false;
    backoff_.reset();
  }
  const bool is_first = !std::exchange(in_trouble_, true);
  const bool at_once = was_up && failure.is_loss && is_first;
  if (!at_once) broken_ = failure.why;
  // While it was connecting, connect() has passed over the address itself.
  if (!at_once && before != Phase::kConnecting) stream_->pass_over_address();
  silence_.cancel();
  work_.set(true);
  lose_all(failure.why, false);
  queue_.reset();
  user_.on_down(failure.why, is_broken());
  return at_once ? std::chrono::nanoseconds(0) : backoff_.next();
}

void CoroutinePipeline::lose_all(std::string_view why, bool all_sent) {
  while (queue_ && queue_->in_flight() != 0) {
    const auto [command, loss] = queue_->lose(all_sent);
    command->on_lost(loss, why);
  }
}

void CoroutinePipeline::end() {
  phase_ = Phase::kEnded;
  failure_ = Failure{.why = {}};
  timer_.cancel();
  silence_.cancel();
  work_.set(false);
  stream_->close(false);
  may_send_.notify();
  pause_over_.notify();
  lose_all("the connection to " + server_ + " was closed by its own side", true);
}

}  // namespace

std::shared_ptr<RequestPipeline> RequestPipeline::make(IoContext& context, PipelineOptions options,
                                                       PipelineUser& user) {
  const auto made = std::make_shared<CoroutinePipeline>(context, std::move(options), user);
  return {made.get(), [made](RequestPipeline*) { made->end(); }};
}

}  // namespace sluice
