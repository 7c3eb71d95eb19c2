#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/endpoint.h"
#include "net/io_context.h"
#include "net/tls_client.h"

// Includes much of Boost.Asio: for few files of this module only.

namespace sluice {

using IoExecutor = boost::asio::io_context::executor_type;
template <class T>
using IoTask = boost::asio::awaitable<T, IoExecutor>;
using IoSocket =
    boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol, IoExecutor>;
inline constexpr boost::asio::use_awaitable_t<IoExecutor> kAwait;

/// What a coroutine waits for and another one tells it.
class IoEvent final {
 public:
  explicit IoEvent(const IoExecutor& executor) : never_(executor, Timer::time_point::max()) {}

  /// Returns after the next notify().
  IoTask<void> wait();
  void notify() { never_.cancel(); }

 private:
  using Timer =
      boost::asio::basic_waitable_timer<IoContext::Clock,
                                        boost::asio::wait_traits<IoContext::Clock>, IoExecutor>;
  Timer never_;
};

/// The addresses of an endpoint, or why there are none.
struct LookupResult {
  std::vector<IoSocket::endpoint_type> addresses;
  std::string error;
};

/// Asks the system for the addresses of a host's name, in the order to try them, at most 16. Blocks
/// for as long as the system's resolver takes: many seconds.
LookupResult look_up_host(const Endpoint& endpoint);

/// Where no server listens on a port of this machine, the system may choose that very port for the
/// socket's own end, which connects it to itself.
bool is_its_own_peer(const IoSocket& socket);

/// The client's end of a stream to a server, over TCP or a Unix socket, with TLS or without.
///
/// Used by one coroutine that connects, then by one that receives and one that sends.
class ClientStream final : public std::enable_shared_from_this<ClientStream> {
 public:
  using LookUp = LookupResult (*)(const Endpoint&);

  /// Throws as TlsClient does. `look_up` is called on another thread.
  ClientStream(IoContext& context, Endpoint endpoint, LookUp look_up = look_up_host);

  /// Finds the server's addresses, connects to one after the other until one accepts, and agrees on
  /// TLS. Returns why not: one sentence; empty where the stream is up. A lookup that was abandoned
  /// serves the next connect().
  IoTask<std::string> connect();
  /// What connect() is doing, as what cannot be done: "connect to localhost:6379".
  std::string doing() const;
  /// The next connect() begins with another address: the server at this one is of no use.
  void pass_over_address() { ++first_; }

  /// REQUIRES: connected.
  IoTask<std::size_t> receive(std::span<char> room, boost::system::error_code& error);
  IoTask<std::size_t> send(std::string_view bytes, boost::system::error_code& error);
  /// Whether bytes have come that were not received yet.
  bool has_unread() const;
  /// An error's text, in the system's words or OpenSSL's; empty where the server has ended the
  /// stream.
  static std::string reason_of(const boost::system::error_code& error);

  /// Whatever is under way ends soon, with an error. `reset`: what has not reached the server is
  /// not sent any more.
  void close(bool reset);

 private:
  enum class Step : std::uint8_t { kFinding, kConnecting, kAgreeingOnTls };

  IoTask<LookupResult> find();
  IoTask<std::string> open(IoSocket::endpoint_type address);
  void close_socket(bool reset);
  std::string failure(const boost::system::error_code& error) const;

  const Endpoint endpoint_;
  const LookUp look_up_;
  const std::weak_ptr<boost::asio::io_context> context_;  // Which may hold this stream.
  std::optional<TlsClient> tls_client_;

  Step step_ = Step::kFinding;
  bool closed_ = false;
  bool looking_up_ = false;
  std::optional<LookupResult>
      found_;  // By a lookup that has ended since connect() began, or before.
  IoEvent lookup_ended_;
  std::size_t first_ = 0;  // Which of the addresses is tried first.
  std::string address_;    // The one that is tried, in digits.
  IoSocket socket_;
  std::optional<boost::asio::ssl::stream<IoSocket&>> tls_;
};

}  // namespace sluice
