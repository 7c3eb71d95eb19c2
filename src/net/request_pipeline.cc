#include "net/request_pipeline.h"

#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <utility>

#include "net/asio_types.h"
#include "net/backoff.h"
#include "net/command_queue.h"
#include "net/look_up.h"
#include "net/tls_client.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

template <class T>
using IoTask = asio::awaitable<T, IoExecutor>;
constexpr asio::use_awaitable_t<IoExecutor> kAwait;

/// When this many bytes are unsent, they are sent before the user is asked for more commands.
constexpr std::size_t kUnsentBytes = std::size_t{64} * 1024;
/// How soon a silent server is checked again if bytes from it have arrived that were not received
/// yet, or may have: then this process is late, not the server.
constexpr std::chrono::milliseconds kLookAgain{1};
/// A server that has said nothing to the beginning of TLS for so long may not know it. (One that
/// does, and is only slow or far away, is asked in vain, until the stream has once agreed on TLS.)
constexpr std::chrono::milliseconds kDoubtTls{50};

/// Whether the server has sent text in the place of TLS.
bool is_text(const error_code& error) {
  return error.category() == asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_WRONG_VERSION_NUMBER;
}

/// With SOCK_CLOEXEC: a program that this one starts would otherwise hold the connection, and keep
/// the system from resetting it. (IoSocket::open() has no such flag; to set it later would be too
/// late for a program that another thread starts in between.)
void open_socket(IoSocket& socket, const IoSocket::endpoint_type& address, error_code& error) {
  const auto protocol = address.protocol();
  const int fd = ::socket(protocol.family(), SOCK_STREAM | SOCK_CLOEXEC, protocol.protocol());
  if (fd < 0) {
    error.assign(errno, boost::system::system_category());
    return;
  }
  socket.assign(protocol, fd, error);
  if (error) ::close(fd);
}

/// Lets one coroutine wait until another one calls notify(). It is a timer that never expires:
/// notify() cancels it, which ends the wait.
class IoEvent final {
 public:
  explicit IoEvent(const IoExecutor& executor) : never_(executor, SteadyTimer::time_point::max()) {}

  /// Returns after the next notify().
  IoTask<void> wait() {
    error_code cancelled;
    co_await never_.async_wait(asio::redirect_error(kAwait, cancelled));
  }
  void notify() { never_.cancel(); }

 private:
  SteadyTimer never_;
};

/// The error's text from the system or OpenSSL; empty if the error is that the server has ended the
/// connection.
std::string reason_of(const error_code& error) {
  if (error == asio::error::eof || error == asio::ssl::error::stream_truncated) return {};
  if (error.category() != asio::error::get_ssl_category()) return error.message();
  const char* reason = ::ERR_reason_error_string(static_cast<unsigned long>(error.value()));
  return reason != nullptr ? reason : "unknown TLS error";
}

/// One coroutine, run(), connects, serves, and pauses before it connects again. Only it gives a
/// connection up: what goes wrong elsewhere calls fail(), which makes connect() or serve() end.
/// serve() receives and, at the same time, sends.
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
        silent_(server_ + " has not answered for a while"),
        context_(context.asio()),
        executor_(context.asio()->get_executor()),
        backoff_(options_.least_pause, options_.most_pause),
        timer_(context, [this] { on_time(); }),
        silence_(context, [this] { on_silence(); }),
        pause_(executor_),
        work_(context),
        lookup_ended_(executor_),
        socket_(executor_),
        may_send_(executor_) {
    assert(options_.max_in_flight > 0);
    if (options_.endpoint.tls) tls_client_.emplace(options_.endpoint);
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
  enum class Phase : std::uint8_t {
    kNew,
    kFinding,
    kConnecting,
    kAgreeingOnTls,
    kHandshake,
    kUp,
    kPause,
  };

  /// Why the connection, or the attempt at one, is given up.
  struct Failure {
    std::string why;
    bool is_loss = false;      // The connection has ended by itself: the server may be usable.
    bool is_in_order = false;  // It is not reset, whatever is in flight.
  };

  IoTask<void> run(std::shared_ptr<CoroutinePipeline> self);

  IoTask<void> connect();
  IoTask<LookupResult> find();
  void put_passed_last(std::vector<IoSocket::endpoint_type>& addresses) const;
  void pass_over_address();
  IoTask<std::string> open(IoSocket::endpoint_type address);
  IoTask<void> agree_on_tls(error_code& error);
  IoTask<void> find_out_whether_plain(IoSocket::endpoint_type address, bool& is_plain);
  std::string doing() const;
  std::string why_cannot(const error_code& error) const;

  IoTask<void> serve();
  IoTask<void> receive();
  IoTask<std::size_t> read_some(std::span<char> room, error_code& error);
  IoTask<void> send();
  IoTask<std::size_t> write_some(std::string_view bytes, error_code& error);
  void deliver();
  void answer(std::string_view reply);
  void on_handshake_done();
  void take_commands();

  void on_time();
  void on_silence();
  std::optional<Clock::time_point> silent_since() const;
  void fail(Failure failure);
  std::chrono::nanoseconds give_up();
  void close_socket(bool reset);
  void lose_all(std::string_view why, bool all_sent);

  const PipelineOptions options_;
  PipelineUser& user_;
  const std::string server_;
  const std::string silent_;
  const std::weak_ptr<asio::io_context> context_;  // Weak: its tasks may hold this.
  const IoExecutor executor_;

  Phase phase_ = Phase::kNew;
  bool has_ended_ = false;          // end() was called.
  std::optional<Failure> failure_;  // Set by fail(), until run() has given the connection up.
  std::string broken_;              // Why the breaker is open; empty: it is closed.
  bool in_trouble_ = false;         // A failure that no lasting connection has followed.
  Backoff backoff_;
  IoTimer timer_;    // At the end of the time for connect(), or for the handshake.
  IoTimer silence_;  // When a command will have been in flight for too long.
  SteadyTimer pause_;
  IoContext::Work work_;

  // For connect():
  bool looking_up_ = false;
  std::optional<LookupResult> found_;  // Of the last lookup that has ended, perhaps long ago.
  IoEvent lookup_ended_;
  IoSocket::endpoint_type address_;  // The one that is tried.
  // Those that were passed over, the last one last. Others are tried before them.
  std::vector<IoSocket::endpoint_type> passed_;
  std::optional<TlsClient> tls_client_;
  bool has_spoken_tls_ = false;  // The server, once.

  // The connection:
  IoSocket socket_;
  std::optional<asio::ssl::stream<IoSocket&>> tls_;
  std::optional<CommandQueue> queue_;
  std::size_t handshake_replies_ = 0;
  std::size_t handshake_answered_ = 0;  // How many replies to the handshake have arrived.
  Clock::time_point up_since_;
  Clock::time_point answered_at_;  // When a command was answered last.
  Clock::time_point looked_at_;    // When on_silence() was called last.
  IoEvent may_send_;               // Something is to be sent, commands may be, or serve() must end.
  std::optional<Clock::time_point> sending_since_;  // The socket has taken nothing since then.
};

void CoroutinePipeline::start() {
  assert(phase_ == Phase::kNew);
  phase_ = Phase::kFinding;
  work_.set(true);
  // An exception that escapes the coroutine ends the process.
  const auto ended = [](std::exception_ptr error) noexcept {
    if (error != nullptr) std::rethrow_exception(error);
  };
  asio::co_spawn(executor_, run(shared_from_this()), ended);
}

IoTask<void> CoroutinePipeline::run(std::shared_ptr<CoroutinePipeline> /*self*/) {
  // co_spawn() may run this at once. But the user may still be in its constructor.
  co_await asio::post(kAwait);
  while (!has_ended_) {
    failure_.reset();
    timer_.set(options_.connect_timeout);
    co_await connect();
    if (!failure_) co_await serve();
    if (has_ended_) break;
    pause_.expires_after(give_up());
    error_code cancelled;
    co_await pause_.async_wait(asio::redirect_error(kAwait, cancelled));
  }
}

/// Finds the server's addresses, connects to one after the other until one accepts, and agrees on
/// TLS.
IoTask<void> CoroutinePipeline::connect() {
  phase_ = Phase::kFinding;
  LookupResult found = co_await find();
  if (found.addresses.empty()) co_return fail({.why = "cannot " + doing() + ": " + found.error});
  put_passed_last(found.addresses);
  std::string why;
  for (const IoSocket::endpoint_type& address : found.addresses) {
    if (failure_) co_return;
    why = co_await open(address);
    if (why.empty()) co_return;
    pass_over_address();
  }
  fail({.why = std::move(why)});
}

/// If fail() ends it before the lookup has ended, the next attempt uses that lookup's result.
IoTask<LookupResult> CoroutinePipeline::find() {
  if (const auto known = address_without_lookup(options_.endpoint)) co_return *known;
  if (!found_ && !looking_up_) {
    looking_up_ = true;
    const auto on_found = [weak = weak_from_this()](LookupResult found) {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->looking_up_ = false;
      self->found_ = std::move(found);
      self->lookup_ended_.notify();
    };
    const auto look_up = options_.look_up != nullptr ? options_.look_up : look_up_host;
    begin_lookup(context_.lock(), options_.endpoint, look_up, on_found);
  }
  while (!found_ && !failure_) co_await lookup_ended_.wait();
  co_return std::exchange(found_, std::nullopt).value_or(LookupResult{});
}

/// Each lookup may find the addresses in another order.
void CoroutinePipeline::put_passed_last(std::vector<IoSocket::endpoint_type>& addresses) const {
  for (const IoSocket::endpoint_type& passed : passed_) {
    std::stable_partition(addresses.begin(), addresses.end(),
                          [&](const auto& one) { return one != passed; });
  }
}

/// The next attempt begins with another address of the host.
void CoroutinePipeline::pass_over_address() {
  std::erase(passed_, address_);
  passed_.push_back(address_);
  if (passed_.size() > kMaxAddresses) passed_.erase(passed_.begin());
}

/// Why it cannot be connected; empty where it is.
IoTask<std::string> CoroutinePipeline::open(IoSocket::endpoint_type address) {
  phase_ = Phase::kConnecting;
  address_ = address;
  tls_.reset();
  close_socket(false);
  error_code error;
  open_socket(socket_, address, error);
  if (!error) co_await socket_.async_connect(address, asio::redirect_error(kAwait, error));
  if (!error && is_its_own_peer(socket_)) {
    // Closed without a reset, the socket would keep the server from its port for a minute more.
    close_socket(true);
    error = asio::error::connection_refused;
  }
  if (error) co_return why_cannot(error);
  if (address.protocol().family() != AF_UNIX) {
    socket_.set_option(tcp::no_delay(true), error);
    socket_.set_option(asio::socket_base::keep_alive(true), error);
  }
  if (!tls_client_) co_return std::string();
  phase_ = Phase::kAgreeingOnTls;
  tls_.emplace(socket_, *options_.endpoint.tls->current());
  tls_client_->prepare(tls_->native_handle());
  bool is_plain = false;
  if (has_spoken_tls_) {
    co_await agree_on_tls(error);
  } else {
    using asio::experimental::awaitable_operators::operator||;
    co_await (agree_on_tls(error) || find_out_whether_plain(address, is_plain));
  }
  if (is_plain || is_text(error)) {
    co_return "cannot " + doing() + ": the server speaks without TLS";
  }
  if (!error) {
    has_spoken_tls_ = true;
    co_return std::string();
  }
  const std::string refusal = tls_client_->refusal(tls_->native_handle());
  if (!refusal.empty()) co_return "cannot " + doing() + ": " + refusal;
  co_return why_cannot(error);
}

IoTask<void> CoroutinePipeline::agree_on_tls(error_code& error) {
  co_await tls_->async_handshake(asio::ssl::stream_base::client,
                                 asio::redirect_error(kAwait, error));
}

/// A server that takes the beginning of TLS for that of a long command waits for the rest of it.
/// While it is silent, asks it on another connection for what it would answer in text. Ends only
/// where it does; is cancelled where TLS is agreed on or has failed.
IoTask<void> CoroutinePipeline::find_out_whether_plain(IoSocket::endpoint_type address,
                                                       bool& is_plain) {
  constexpr char kLeastText = ' ';  // The first byte of what is said in TLS is below.
  const auto executor = socket_.get_executor();
  SteadyTimer doubt(executor, kDoubtTls);
  IoEvent never(executor);
  IoSocket plain(executor);
  std::array<char, 1> first{};
  error_code error;
  co_await doubt.async_wait(asio::redirect_error(kAwait, error));
  if (!error) open_socket(plain, address, error);
  if (!error) co_await plain.async_connect(address, asio::redirect_error(kAwait, error));
  if (!error) {
    const std::string_view question = "PING\r\n";
    co_await plain.async_write_some(asio::buffer(question), asio::redirect_error(kAwait, error));
  }
  if (!error) {
    co_await plain.async_read_some(asio::buffer(first), asio::redirect_error(kAwait, error));
  }
  if (!error && first[0] >= kLeastText) {
    is_plain = true;
    close_socket(false);
    co_return;
  }
  co_await never.wait();
}

/// What connect() is doing now, in words that follow "cannot ".
std::string CoroutinePipeline::doing() const {
  if (phase_ == Phase::kFinding) return "find the address of " + server_;
  if (phase_ == Phase::kAgreeingOnTls) return "agree on TLS with " + server_;
  const std::string address = numeric_address(address_);
  const bool is_name = !address.empty() && address != options_.endpoint.host;
  return "connect to " + server_ + (is_name ? " (" + address + ")" : "");
}

std::string CoroutinePipeline::why_cannot(const error_code& error) const {
  const std::string reason = reason_of(error);
  return "cannot " + doing() + ": " +
         (reason.empty() ? "the server closed the connection" : reason);
}

IoTask<void> CoroutinePipeline::serve() {
  using asio::experimental::awaitable_operators::operator&&;
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
    error_code error;
    const std::size_t bytes = co_await read_some(queue_->room(), error);
    queue_->received(bytes);
    deliver();
    if (error) {
      const std::string reason = reason_of(error);
      fail({.why = reason.empty() ? server_ + " closed the connection"
                                  : "the connection to " + server_ + " failed: " + reason,
            .is_loss = true,
            .is_in_order = reason.empty()});
    }
    take_commands();  // Replies have made room for them.
  }
}

IoTask<std::size_t> CoroutinePipeline::read_some(std::span<char> room, error_code& error) {
  const auto buffer = asio::buffer(room.data(), room.size());
  if (tls_) return tls_->async_read_some(buffer, asio::redirect_error(kAwait, error));
  return socket_.async_read_some(buffer, asio::redirect_error(kAwait, error));
}

IoTask<void> CoroutinePipeline::send() {
  while (!failure_) {
    if (queue_->unsent().empty()) {
      co_await may_send_.wait();
      // flush() has found the connection idle. receive() comes first: if it learns that the server
      // has closed the connection, no command is taken for it.
      if (queue_->unsent().empty()) co_await asio::post(kAwait);
      take_commands();
      continue;
    }
    error_code error;
    sending_since_ = Clock::now();
    queue_->begin_sending(*sending_since_);
    if (!silence_.is_set()) silence_.set_at(*sending_since_ + options_.silence_timeout);
    const std::size_t bytes = co_await write_some(queue_->unsent(), error);
    queue_->sent(bytes);
    // receive() still reads the replies that the server sent before it closed the connection, and
    // the reason. If it finds none, the server counts as one that does not receive.
    if (error) co_return;
    sending_since_.reset();
    take_commands();
  }
}

IoTask<std::size_t> CoroutinePipeline::write_some(std::string_view bytes, error_code& error) {
  const auto buffer = asio::buffer(bytes.data(), bytes.size());
  if (tls_) return tls_->async_write_some(buffer, asio::redirect_error(kAwait, error));
  return socket_.async_write_some(buffer, asio::redirect_error(kAwait, error));
}

void CoroutinePipeline::deliver() {
  while (!failure_) {
    const std::optional<std::string_view> reply = queue_->next_reply();
    if (reply) answer(*reply);
    if (!queue_->error().empty()) fail({.why = server_ + " " + queue_->error()});
    if (!reply) return;
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
  const auto within = [](std::chrono::milliseconds limit) {
    return " within " + std::to_string(limit.count()) + " ms";
  };
  fail({.why =
            phase_ == Phase::kHandshake
                ? server_ + " has not completed the handshake" + within(options_.handshake_timeout)
                : "cannot " + doing() + within(options_.connect_timeout)});
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
  error_code error;
  const auto since = is_up() ? silent_since() : std::nullopt;
  if (!since) return;
  const Clock::time_point end = *since + options_.silence_timeout;
  if (now < end) {
    silence_.set_at(end);
  } else if (socket_.available(error) != 0 || answered_at_ > looked_at) {
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
  if (phase_ == Phase::kNew || phase_ == Phase::kPause) return;
  fail({.why = std::string(why)});
}

/// Makes connect() or serve() end, so that run() gives the connection up. Only the first failure
/// counts: others follow from it.
void CoroutinePipeline::fail(Failure failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  work_.set(true);
  // With commands in flight, reset the connection: otherwise the kernel would go on sending them,
  // and the server might execute them much later.
  close_socket(!failure_->is_in_order && queue_ && queue_->in_flight() != 0);
  lookup_ended_.notify();
  may_send_.notify();
}

/// Returns how long to wait before the next attempt.
std::chrono::nanoseconds CoroutinePipeline::give_up() {
  const Failure failure = *std::exchange(failure_, std::nullopt);
  const Phase before = std::exchange(phase_, Phase::kPause);
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
  if (!at_once && (was_up || before == Phase::kHandshake)) pass_over_address();
  timer_.cancel();
  silence_.cancel();
  work_.set(true);
  lose_all(failure.why, false);
  queue_.reset();
  user_.on_down(failure.why, is_broken());
  return at_once ? std::chrono::nanoseconds(0) : backoff_.next();
}

/// With `reset`, the kernel drops what it has not delivered yet; otherwise it goes on delivering
/// it.
void CoroutinePipeline::close_socket(bool reset) {
  error_code error;
  // A Unix socket has nothing on its way, and ignores it.
  if (reset) socket_.set_option(asio::socket_base::linger(true, 0), error);
  socket_.close(error);
}

void CoroutinePipeline::lose_all(std::string_view why, bool all_sent) {
  while (queue_ && queue_->in_flight() != 0) {
    const auto [command, loss] = queue_->lose(all_sent);
    command->on_lost(loss, why);
  }
}

void CoroutinePipeline::end() {
  has_ended_ = true;
  fail({.why = {}, .is_in_order = true});
  timer_.cancel();
  silence_.cancel();
  pause_.cancel();
  work_.set(false);
  lose_all("the connection to " + server_ + " was closed by its own side", true);
}

}  // namespace

std::shared_ptr<RequestPipeline> RequestPipeline::make(IoContext& context, PipelineOptions options,
                                                       PipelineUser& user) {
  const auto made = std::make_shared<CoroutinePipeline>(context, std::move(options), user);
  return {made.get(), [made](RequestPipeline*) { made->end(); }};
}

}  // namespace sluice
