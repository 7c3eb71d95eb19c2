#include "net/client_stream.h"

#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <cassert>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "core/without_signals.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kMaxAddresses = 16;
/// A server that has said nothing to the beginning of TLS for so long may not know it. (One that
/// does, and is only slow or far away, is asked in vain, until the stream has once agreed on TLS.)
constexpr std::chrono::milliseconds kDoubtTls{50};

LookupResult unix_address(const std::string& path) {
  if (path.size() > kMaxUnixPathBytes) {
    return {{},
            "its path has " + std::to_string(path.size()) + " bytes, a socket's has " +
                std::to_string(kMaxUnixPathBytes) + " at most"};
  }
  return {{asio::local::stream_protocol::endpoint(path)}, {}};
}

// Whether the server has sent text in the place of TLS.
bool is_text(const error_code& error) {
  return error.category() == asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_WRONG_VERSION_NUMBER;
}

// A program that this one starts would otherwise hold the connection, and keep the system from
// resetting it. (IoSocket::open() has no such flag; to set it later would be too late for a program
// that another thread starts in between.)
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

}  // namespace

bool is_its_own_peer(const IoSocket& socket) {
  error_code error;
  const auto own = socket.local_endpoint(error);
  return !error && own.protocol().family() != AF_UNIX && own == socket.remote_endpoint(error);
}

IoTask<void> IoEvent::wait() {
  error_code cancelled;
  co_await never_.async_wait(asio::redirect_error(kAwait, cancelled));
}

LookupResult look_up_host(const Endpoint& endpoint) {
  asio::io_context unused;
  error_code error;
  // Not address_configured: on a machine without a network it would hide localhost.
  const auto results = tcp::resolver(unused).resolve(endpoint.host, std::to_string(endpoint.port),
                                                     tcp::resolver::numeric_service, error);
  LookupResult found;
  if (error) found.error = error.message();
  for (const auto& result : results) {
    if (found.addresses.size() < kMaxAddresses) found.addresses.emplace_back(result.endpoint());
  }
  return found;
}

ClientStream::ClientStream(IoContext& context, Endpoint endpoint, LookUp look_up)
    : endpoint_(std::move(endpoint)),
      look_up_(look_up),
      context_(context.asio()),
      lookup_ended_(context.asio()->get_executor()),
      socket_(context.asio()->get_executor()) {
  if (endpoint_.tls) tls_client_.emplace(endpoint_);
}

IoTask<std::string> ClientStream::connect() {
  closed_ = false;
  step_ = Step::kFinding;
  LookupResult found = co_await find();
  if (found.addresses.empty()) co_return "cannot " + doing() + ": " + found.error;
  put_passed_last(found.addresses);
  std::string why;
  for (const IoSocket::endpoint_type& address : found.addresses) {
    if (closed_) break;
    why = co_await open(address);
    if (why.empty()) break;
    pass_over_address();
  }
  co_return why;
}

void ClientStream::pass_over_address() {
  std::erase(passed_, address_);
  passed_.push_back(address_);
  if (passed_.size() > kMaxAddresses) passed_.erase(passed_.begin());
}

/// Each lookup may find the addresses in another order.
void ClientStream::put_passed_last(std::vector<IoSocket::endpoint_type>& addresses) const {
  for (const IoSocket::endpoint_type& passed : passed_) {
    std::stable_partition(addresses.begin(), addresses.end(),
                          [&](const auto& one) { return one != passed; });
  }
}

IoTask<LookupResult> ClientStream::find() {
  if (!endpoint_.unix_path.empty()) co_return unix_address(endpoint_.unix_path);
  error_code is_name;
  const auto numeric = asio::ip::make_address(endpoint_.host, is_name);
  if (!is_name) co_return LookupResult{{tcp::endpoint(numeric, endpoint_.port)}, {}};
  if (!found_ && !looking_up_) begin_lookup();
  while (!found_ && !closed_) co_await lookup_ended_.wait();
  co_return std::exchange(found_, std::nullopt).value_or(LookupResult{});
}

/// On a thread of its own, as the system's resolver blocks. It may still run when the program ends.
/// A caller of the library may have led to this: its thread takes signals, the new one must not.
void ClientStream::begin_lookup() {
  // The thread holds the io_context alive; its result is dropped if the stream is gone.
  const auto look_up = [look_up_host = look_up_, endpoint = endpoint_, context = context_.lock(),
                        weak = weak_from_this()] {
    asio::post(*context, [weak, found = look_up_host(endpoint)] {
      const auto stream = weak.lock();
      if (stream == nullptr) return;
      stream->looking_up_ = false;
      stream->found_ = found;
      stream->lookup_ended_.notify();
    });
  };
  const WithoutSignals without_signals;
  try {
    std::thread(look_up).detach();
    looking_up_ = true;
  } catch (const std::system_error& error) {
    found_ = LookupResult{{}, "the system starts no thread: " + error.code().message()};
  }
}

/// Why it cannot be connected; empty where it is.
IoTask<std::string> ClientStream::open(IoSocket::endpoint_type address) {
  step_ = Step::kConnecting;
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
  if (error) co_return failure(error);
  if (address.protocol().family() != AF_UNIX) {
    socket_.set_option(tcp::no_delay(true), error);
    socket_.set_option(asio::socket_base::keep_alive(true), error);
  }
  if (!tls_client_) co_return std::string();
  step_ = Step::kAgreeingOnTls;
  tls_.emplace(socket_, *endpoint_.tls->current());
  tls_client_->prepare(tls_->native_handle());
  is_plain_ = false;
  if (has_spoken_tls_) {
    co_await shake_hands(error);
  } else {
    using asio::experimental::awaitable_operators::operator||;
    co_await (shake_hands(error) || find_out_whether_plain(address));
  }
  if (is_plain_ || is_text(error)) {
    co_return "cannot " + doing() + ": the server speaks without TLS";
  }
  if (!error) {
    has_spoken_tls_ = true;
    co_return std::string();
  }
  const std::string refusal = tls_client_->refusal(tls_->native_handle());
  if (!refusal.empty()) co_return "cannot " + doing() + ": " + refusal;
  co_return failure(error);
}

IoTask<void> ClientStream::shake_hands(error_code& error) {
  co_await tls_->async_handshake(asio::ssl::stream_base::client,
                                 asio::redirect_error(kAwait, error));
}

/// A server that takes the beginning of TLS for that of a long command waits for the rest of it.
/// While it is silent, asks it on another connection for what it would answer in text. Ends only
/// where it does; is cancelled where TLS is agreed on or has failed.
IoTask<void> ClientStream::find_out_whether_plain(IoSocket::endpoint_type address) {
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
    is_plain_ = true;
    close_socket(false);
    co_return;
  }
  co_await never.wait();
}

std::string ClientStream::doing() const {
  const std::string server = endpoint_.text();
  if (step_ == Step::kFinding) return "find the address of " + server;
  if (step_ == Step::kAgreeingOnTls) return "agree on TLS with " + server;
  const std::string address = numeric_address(address_);
  const bool is_name = !address.empty() && address != endpoint_.host;
  return "connect to " + server + (is_name ? " (" + address + ")" : "");
}

std::string ClientStream::failure(const error_code& error) const {
  const std::string reason = reason_of(error);
  return "cannot " + doing() + ": " +
         (reason.empty() ? "the server closed the connection" : reason);
}

std::string ClientStream::reason_of(const error_code& error) {
  if (error == asio::error::eof || error == asio::ssl::error::stream_truncated) return {};
  if (error.category() != asio::error::get_ssl_category()) return error.message();
  const char* reason = ::ERR_reason_error_string(static_cast<unsigned long>(error.value()));
  return reason != nullptr ? reason : "unknown TLS error";
}

IoTask<std::size_t> ClientStream::receive(std::span<char> room, error_code& error) {
  assert(socket_.is_open());
  const auto buffer = asio::buffer(room.data(), room.size());
  if (tls_) return tls_->async_read_some(buffer, asio::redirect_error(kAwait, error));
  return socket_.async_read_some(buffer, asio::redirect_error(kAwait, error));
}

IoTask<std::size_t> ClientStream::send(std::string_view bytes, error_code& error) {
  assert(socket_.is_open());
  const auto buffer = asio::buffer(bytes.data(), bytes.size());
  if (tls_) return tls_->async_write_some(buffer, asio::redirect_error(kAwait, error));
  return socket_.async_write_some(buffer, asio::redirect_error(kAwait, error));
}

bool ClientStream::has_unread() const {
  error_code error;
  return socket_.available(error) != 0;
}

void ClientStream::close(bool reset) {
  closed_ = true;
  close_socket(reset);
  lookup_ended_.notify();
}

void ClientStream::close_socket(bool reset) {
  error_code error;
  // A Unix socket has nothing on its way, and ignores it.
  if (reset) socket_.set_option(asio::socket_base::linger(true, 0), error);
  socket_.close(error);
}

}  // namespace sluice
