#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/asio_types.h"
#include "net/endpoint.h"
#include "net/io_context.h"
#include "net/tls_client.h"

// Includes much of Boost.Asio, which compiles slowly: for the .cc files of this module only.

namespace sluice {

template <class T>
using IoTask = boost::asio::awaitable<T, IoExecutor>;
inline constexpr boost::asio::use_awaitable_t<IoExecutor> kAwait;

/// Lets one coroutine wait until another one calls notify(). It is a timer that never expires:
/// notify() cancels it, which ends the wait.
class IoEvent final {
 public:
  explicit IoEvent(const IoExecutor& executor) : never_(executor, SteadyTimer::time_point::max()) {}

  /// Returns after the next notify().
  IoTask<void> wait();
  void notify() { never_.cancel(); }

 private:
  SteadyTimer never_;
};

/// The addresses of an endpoint, or why there are none.
struct LookupResult {
  std::vector<IoSocket::endpoint_type> addresses;
  std::string error;
};

/// Asks the system for the addresses of a host's name, in the order to try them, at most 16. Blocks
/// for as long as the system's resolver takes: many seconds.
LookupResult look_up_host(const Endpoint& endpoint);

/// Whether the socket is connected to itself. That happens when no server listens on a port of this
/// machine, and the system chooses that port for the client's own end.
bool is_its_own_peer(const IoSocket& socket);

/// The client's end of a stream to a server, over TCP or a Unix socket, with TLS or without.
///
/// One coroutine calls connect(); after that, one coroutine calls receive() and one calls send().
class ClientStream final : public std::enable_shared_from_this<ClientStream> {
 public:
  using LookUp = LookupResult (*)(const Endpoint&);

  /// Throws as TlsClient does. `look_up` is called on a thread of its own, since it blocks.
  ClientStream(IoContext& context, Endpoint endpoint, LookUp look_up = look_up_host);

  /// Finds the server's addresses, connects to one after the other until one accepts, and agrees on
  /// TLS. Returns an empty string if the stream is up, otherwise one sentence that says why not. If
  /// close() ends this call before the lookup has ended, the next connect() uses that lookup's
  /// result.
  IoTask<std::string> connect();
  /// What connect() is doing now, in words that may follow "cannot ": "connect to localhost:6379".
  std::string doing() const;
  /// The next connect() begins with another address of the host. Called when the server at the
  /// present address must not be used, for example because it is a replica, or does not answer.
  void pass_over_address();

  /// REQUIRES: connected.
  IoTask<std::size_t> receive(std::span<char> room, boost::system::error_code& error);
  IoTask<std::size_t> send(std::string_view bytes, boost::system::error_code& error);
  /// Whether the socket has bytes that receive() has not returned yet.
  bool has_unread() const;
  /// The error's text from the system or OpenSSL; empty if the error is that the server has ended
  /// the stream.
  static std::string reason_of(const boost::system::error_code& error);

  /// Closes the stream: the connect(), receive() or send() that is under way ends soon, with an
  /// error. With `reset`, the kernel drops what it has not delivered yet; otherwise it goes on
  /// delivering it.
  void close(bool reset);

 private:
  enum class Step : std::uint8_t { kFinding, kConnecting, kAgreeingOnTls };

  IoTask<LookupResult> find();
  void begin_lookup();
  void put_passed_last(std::vector<IoSocket::endpoint_type>& addresses) const;
  IoTask<std::string> open(IoSocket::endpoint_type address);
  IoTask<void> shake_hands(boost::system::error_code& error);
  IoTask<void> find_out_whether_plain(IoSocket::endpoint_type address);
  void close_socket(bool reset);
  std::string failure(const boost::system::error_code& error) const;

  const Endpoint endpoint_;
  const LookUp look_up_;
  const std::weak_ptr<boost::asio::io_context> context_;  // Weak: its tasks may hold this stream.
  std::optional<TlsClient> tls_client_;

  Step step_ = Step::kFinding;
  bool closed_ = false;
  bool looking_up_ = false;
  // The result of the last lookup that has ended, perhaps before this connect() began.
  std::optional<LookupResult> found_;
  IoEvent lookup_ended_;
  IoSocket::endpoint_type address_;  // The one that is tried.
  // Those that were passed over, the last one last. Others are tried before them.
  std::vector<IoSocket::endpoint_type> passed_;
  IoSocket socket_;
  std::optional<boost::asio::ssl::stream<IoSocket&>> tls_;
  bool has_spoken_tls_ = false;  // The server, once.
  bool is_plain_ = false;        // It speaks without TLS.
};

}  // namespace sluice
