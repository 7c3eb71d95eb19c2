#include "net/stream_server.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/local/datagram_protocol.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <cassert>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <future>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "net/accepted_connection.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using SocketEndpoint = asio::generic::stream_protocol::endpoint;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol, IoExecutor>;

constexpr std::chrono::milliseconds kAcceptPause{100};
/// How many peers may have connected to one socket and not been accepted yet. The kernel allows one
/// more, and fewer where net.core.somaxconn is smaller.
constexpr int kListenBacklog = 4096;
/// After so many seconds of silence TCP asks whether the peer is still there, so that a vanished
/// peer does not keep its connection for ever.
constexpr int kKeepAliveIdleS = 300;

SocketEndpoint endpoint_of(const Address& address) {
  return asio::ip::tcp::endpoint(asio::ip::make_address(address.host), address.port);
}

void set_option(Acceptor& socket, int level, int name, int value = 1) {
  ::setsockopt(socket.native_handle(), level, name, &value, sizeof(value));
}

/// Accepted sockets inherit the options, which saves system calls per connection.
void set_options_of_peers(Acceptor& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleS);
}

/// `shares_port`: another listener of this server has the port, too, and allows it; from then on
/// both do. It is not always allowed: half of the connections could go to another server of this
/// user, unseen.
Acceptor listen_tcp(asio::io_context& context, const SocketEndpoint& endpoint, bool shares_port) {
  Acceptor socket(context);
  socket.open(endpoint.protocol());
  if (endpoint.protocol().family() == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY);
  set_option(socket, SOL_SOCKET, SO_REUSEADDR);
  if (shares_port) set_option(socket, SOL_SOCKET, SO_REUSEPORT);
  set_options_of_peers(socket);
  socket.bind(endpoint);
  socket.listen(kListenBacklog);
  return socket;
}

/// Whether the file at `path` belongs to a Unix socket that no longer exists. It is probed with a
/// datagram socket: if a stream socket exists, connecting fails with "wrong type", also before that
/// socket listens, when a stream probe would be refused as if it did not exist. Nor does the probe
/// wait to be accepted.
bool is_stale(asio::io_context& context, const std::string& path) {
  error_code error;
  if (!std::filesystem::is_socket(std::filesystem::symlink_status(path, error))) return false;
  asio::local::datagram_protocol::socket probe(context);
  probe.connect(path, error);
  return error == asio::error::connection_refused;
}

/// A file left by a server that is gone is replaced; one that belongs to a socket is not, though
/// that may not listen yet. (Of two servers that replace a file in the same instant, the later may
/// get the path and the earlier not learn it.)
Acceptor listen_unix(asio::io_context& context, const std::string& path) {
  if (is_stale(context, path)) ::unlink(path.c_str());
  const SocketEndpoint endpoint = asio::local::stream_protocol::endpoint(path);
  Acceptor socket(context, endpoint.protocol());
  socket.bind(endpoint);
  socket.listen(kListenBacklog);
  return socket;
}

/// A second descriptor of a socket that listens already.
Acceptor listen_on(asio::io_context& context, int passed_socket, const Address& address) {
  const int socket = ::fcntl(passed_socket, F_DUPFD_CLOEXEC, 0);
  if (socket < 0) throw boost::system::system_error(errno, boost::system::system_category());
  if (address.family == Address::Family::kUnix) {
    return {context, asio::local::stream_protocol(), socket};
  }
  const bool is_ipv6 = address.family == Address::Family::kIpv6;
  Acceptor acceptor(context, is_ipv6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), socket);
  set_options_of_peers(acceptor);
  return acceptor;
}

/// Tells a peer that there are too many, and closes.
void refuse(IoSocket socket, const std::string& refusal) {
  error_code ignored;
  socket.non_blocking(true, ignored);
  // The peer's receive buffer is empty, so one attempt delivers the line.
  socket.write_some(asio::buffer(refusal), ignored);
  // Many clients speak first, and closing a socket with unread input resets it, which may overtake
  // the line. So this side ends first, and what has come is read and ignored.
  socket.shutdown(IoSocket::shutdown_send, ignored);
  std::array<char, 16 * 1024> input;
  socket.read_some(asio::buffer(input), ignored);
}

std::string cannot_listen(const Address& address, const std::string& why) {
  return "cannot listen on " + address.text() + ": " + why;
}

}  // namespace

void check_place(const Address& address) {
  if (address.family != Address::Family::kUnix) return;
  const std::filesystem::path path = address.host;
  if (::access((path.parent_path() / ".").c_str(), W_OK | X_OK) != 0) {
    throw ListenError(cannot_listen(address, std::generic_category().message(errno)));
  }
  std::error_code ignored;
  const std::filesystem::file_status there = std::filesystem::symlink_status(path, ignored);
  if (std::filesystem::exists(there) && !std::filesystem::is_socket(there)) {
    throw ListenError(cannot_listen(address, "the file at this path is not a socket"));
  }
}

/// The file that a listening Unix socket has made: removed with this object, unless another server
/// has put its own in the place.
class SocketFile {
 public:
  explicit SocketFile(std::string path) : path_(std::move(path)) { ::lstat(path_.c_str(), &made_); }
  ~SocketFile() {
    struct stat now {};
    const bool is_ours = ::lstat(path_.c_str(), &now) == 0 && now.st_dev == made_.st_dev &&
                         now.st_ino == made_.st_ino;
    if (is_ours) ::unlink(path_.c_str());
  }
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

 private:
  const std::string path_;
  struct stat made_ {};
};

/// The connections of all serving threads, to which the listeners add.
struct AllConnections {
  explicit AllConnections(const StreamServerOptions& given) : options(given) {
    assert(options.threads >= 1);
    for (std::size_t i = 0; i < options.threads; ++i) {
      groups.emplace_back(i, options.limits, memory);
    }
  }

  /// Where a new connection of the service is counted until it is closed. Null if there are too
  /// many.
  OpenConnections* count_one_of(const Service& service) {
    const auto fits = [](OpenConnections& counted, std::size_t most) {
      if (counted.count.fetch_add(1) < most) return true;
      counted.count.fetch_sub(1);
      return false;
    };
    if (service.reserve != 0 && fits(in_reserve, service.reserve)) return &in_reserve;
    return fits(open, options.max_connections) ? &open : nullptr;
  }

  const StreamServerOptions options;
  OpenConnections open{.is_reserve = false};
  OpenConnections in_reserve{.is_reserve = true};
  ClientMemory memory{options.max_bytes};
  /// Each is used by its thread only. The first thread accepts.
  std::deque<ConnectionGroup> groups;
};

/// Has each connection do this. Some may leave the group meanwhile.
void tell_all(ConnectionGroup& group, void (AcceptedConnection::*what)()) {
  for (const auto& connection : std::vector(group.members.begin(), group.members.end())) {
    (*connection.*what)();
  }
}

/// Listens at the address of a service, and hands the connections to the groups in turn. Belongs
/// to the first group's thread, or, before start(), to the one that made it.
class Listener {
 public:
  /// Throws ListenError. `shares_port`: another listener has the port, whose share_port() was
  /// called. `all` outlives this.
  Listener(Service service, bool shares_port, AllConnections& all)
      : service_(std::make_shared<const Service>(std::move(service))),
        address_(service_->address),
        socket_(open(*all.groups.front().context, shares_port)),
        pause_(socket_.get_executor()),
        all_(all) {}

  const Service& service() const { return *service_; }
  /// With the real port.
  const Address& address() const { return address_; }

  /// Lets the next listener have the port of this one, before this one is closed, or not. From any
  /// thread.
  void share_port(bool shares) { set_option(socket_, SOL_SOCKET, SO_REUSEPORT, shares ? 1 : 0); }

  /// From any thread.
  void start() {
    asio::post(socket_.get_executor(), [this] { accept(); });
  }

  /// From now on it serves its peers so.
  void use(Service service) { service_ = std::make_shared<const Service>(std::move(service)); }

  /// Accepts those that have connected, as far as there are descriptors, and closes the socket. If
  /// that was passed, those that have connected stay with it. Does nothing the second time.
  void stop() {
    file_.reset();
    if (service_->passed_socket < 0) accept_waiting();
    pause_.cancel();
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  Acceptor open(asio::io_context& context, bool shares_port) {
    try {
      if (service_->passed_socket >= 0) {
        return listen_on(context, service_->passed_socket, address_);
      }
      if (address_.family == Address::Family::kUnix) {
        check_place(address_);
        Acceptor socket = listen_unix(context, address_.host);
        file_.emplace(address_.host);
        return socket;
      }
      Acceptor socket = listen_tcp(context, endpoint_of(address_), shares_port);
      address_.port = tcp_endpoint(socket.local_endpoint()).port();
      return socket;
    } catch (const boost::system::system_error& error) {
      throw ListenError(cannot_listen(address_, error.code().message()));
    }
  }

  void accept() {
    if (!socket_.is_open()) return;
    ConnectionGroup& group = next_group();
    socket_.async_accept(*group.context, [this, &group](const error_code& error, IoSocket peer) {
      if (!error) {
        hand_over(std::move(peer), group);
        accept();
      } else if (socket_.is_open() && error != asio::error::operation_aborted) {
        // Most likely the system is out of descriptors, and trying again at once would spin.
        service_->on_accept_failure(error.message());
        pause_.expires_after(kAcceptPause);
        pause_.async_wait([this](const error_code& cancelled) {
          if (!cancelled) accept();
        });
      }
    });
  }

  // Closing resets the peers that wait to be accepted. No more are accepted than have connected
  // before, so that new ones cannot keep the server from its end.
  void accept_waiting() {
    error_code error;
    socket_.non_blocking(true, error);
    for (int i = 0; i <= kListenBacklog && !error; ++i) {
      ConnectionGroup& group = next_group();
      IoSocket peer(*group.context);
      socket_.accept(peer, error);
      if (!error) hand_over(std::move(peer), group);
    }
  }

  ConnectionGroup& next_group() { return all_.groups[next_++ % all_.groups.size()]; }

  // A peer that is one too many is refused here: those that wait for their thread have descriptors,
  // too.
  void hand_over(IoSocket peer, ConnectionGroup& group) {
    OpenConnections* const counted = all_.count_one_of(*service_);
    if (counted == nullptr) {
      service_->on_event(ConnectionEvent::kRefused);
      if (service_->tls == nullptr) refuse(std::move(peer), service_->refusal);
      return;
    }
    asio::dispatch(
        *group.context, [service = service_, &group, counted, peer = std::move(peer)]() mutable {
          std::make_shared<AcceptedConnection>(std::move(peer), group, std::move(service), *counted)
              ->start();
        });
  }

  std::shared_ptr<const Service> service_;
  Address address_;
  std::optional<SocketFile> file_;
  Acceptor socket_;
  SteadyTimer pause_;
  AllConnections& all_;
  std::size_t next_ = 0;  // The group that gets the next peer.
};

namespace {

using Listeners = std::vector<std::shared_ptr<Listener>>;

/// Whether a listener of `a` can go on with `b`, perhaps by another protocol or with other TLS.
/// "Any free port" is no address that clients know, so there the protocol must be the same.
bool can_go_on(const Service& a, const Service& b) {
  const bool is_any_port = a.address.family != Address::Family::kUnix && a.address.port == 0;
  return a.address == b.address && a.passed_socket == b.passed_socket &&
         (!is_any_port || a.protocol == b.protocol);
}

/// Takes the first listener that can go on with the service out of the list. Null if there is none.
std::shared_ptr<Listener> take_listener(Listeners& listeners, const Service& service) {
  const auto at = std::ranges::find_if(
      listeners, [&](const auto& each) { return can_go_on(each->service(), service); });
  if (at == listeners.end()) return nullptr;
  std::shared_ptr<Listener> found = std::move(*at);
  listeners.erase(at);
  return found;
}

/// Those that have the port of this address.
Listeners with_port_of(const Address& address, const Listeners& listeners) {
  Listeners found;
  if (address.family == Address::Family::kUnix) return found;
  std::ranges::copy_if(listeners, std::back_inserter(found), [&](const auto& other) {
    return other->address().family == address.family && other->address().port == address.port;
  });
  return found;
}

}  // namespace

struct StreamServer::State {
  explicit State(const StreamServerOptions& options) : connections(options) {}

  /// Runs `task` on the thread that accepts. Returns when it has, and the peers that had been
  /// accepted before are handed over.
  void run_where_accepting(const std::function<void()>& task) {
    asio::io_context& context = *connections.groups.front().context;
    std::promise<void> done;
    asio::post(context, [&] {
      task();
      // Posted, since a peer may have been accepted already and wait to be handed over.
      asio::post(context, [&] { done.set_value(); });
    });
    done.get_future().wait();
  }

  /// Accepts the peers that have connected, and no more. Returns when all is handed over.
  void stop_accepting(const Listeners& stopped_ones, bool only_passed = false) {
    run_where_accepting([&] {
      for (const auto& listener : stopped_ones) {
        if (!only_passed || listener->service().passed_socket >= 0) listener->stop();
      }
    });
  }

  /// Has each connection of the threads that still run at this time do this.
  void tell_late_threads(std::chrono::steady_clock::time_point when,
                         void (AcceptedConnection::*what)()) {
    for (std::size_t i = 0; i < threads.size(); ++i) {
      if (threads[i].wait_until(when) == std::future_status::ready) continue;
      ConnectionGroup& group = connections.groups[i];
      asio::post(*group.context, [&group, what] { tell_all(group, what); });
    }
  }

  AllConnections connections;
  Listeners listeners;  // In the order of the services.
  std::vector<std::future<void>> threads;
  bool stopped = false;
};

StreamServer::StreamServer(std::vector<Service> services, const StreamServerOptions& options)
    : state_(std::make_unique<State>(options)) {
  State& state = *state_;
  for (Service& service : services) {
    state.listeners.push_back(
        std::make_shared<Listener>(std::move(service), false, state.connections));
    state.listeners.back()->start();
  }
}

StreamServer::~StreamServer() {
  stop(std::chrono::milliseconds(0));
}

std::vector<Address> StreamServer::addresses() const {
  std::vector<Address> all;
  for (const auto& listener : state_->listeners) all.push_back(listener->address());
  return all;
}

void StreamServer::replace(std::vector<Service> services, const std::function<void()>& commit) {
  State& state = *state_;
  assert(!state.threads.empty() && !state.stopped);
  Listeners leaving = state.listeners;
  Listeners kept;  // For each service, or null.
  for (const Service& service : services) kept.push_back(take_listener(leaving, service));
  Listeners next = kept;
  try {
    // Those that share a port come last: once a second socket has had a port, the system lets other
    // programs of this user have it as well, until the first socket is closed. So that is not so
    // where another address is refused before.
    for (const bool shares_port : {false, true}) {
      for (std::size_t i = 0; i < services.size(); ++i) {
        const Listeners others = with_port_of(services[i].address, leaving);
        if (kept[i] != nullptr || others.empty() == shares_port) continue;
        for (const auto& other : others) other->share_port(true);
        next[i] = std::make_shared<Listener>(services[i], shares_port, state.connections);
      }
    }
    commit();
  } catch (...) {
    for (const auto& listener : leaving) listener->share_port(false);  // They stay.
    throw;
  }
  // What commit() has done stays. So the process ends where memory is lacking from here on.
  const auto use_next = [&]() noexcept {
    state.run_where_accepting([&] {
      for (std::size_t i = 0; i < services.size(); ++i) {
        if (kept[i] != nullptr) {
          kept[i]->use(std::move(services[i]));
        } else {
          next[i]->start();
        }
      }
    });
    state.listeners = std::move(next);
    state.stop_accepting(leaving);
  };
  use_next();
}

void StreamServer::start() {
  State& state = *state_;
  assert(state.threads.empty());
  try {
    for (ConnectionGroup& group : state.connections.groups) {
      state.threads.push_back(
          std::async(std::launch::async, [&group]() noexcept { group.context->run(); }));
    }
  } catch (const std::system_error& error) {
    // stop() would wait for the threads that there are not.
    const std::string failed = std::to_string(state.threads.size() + 1);
    for (ConnectionGroup& group : state.connections.groups) group.context->stop();
    state.threads.clear();
    throw std::system_error(error.code(), "cannot start thread " + failed + " of " +
                                              std::to_string(state.connections.groups.size()));
  }
}

void StreamServer::drain(std::chrono::milliseconds timeout) {
  State& state = *state_;
  assert(!state.threads.empty() && !state.stopped);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  // Before any connection is closed, so that its peer reaches the next process.
  state.stop_accepting(state.listeners, true);
  // When its last share goes, the promise is broken, which ends the wait.
  auto left = std::make_shared<std::promise<void>>();
  const std::future<void> all_have_left = left->get_future();
  for (ConnectionGroup& group : state.connections.groups) {
    asio::post(*group.context, [&group, left] {
      for (const auto& connection : group.members) connection->leave(left);
    });
  }
  left.reset();
  all_have_left.wait_until(deadline);
}

void StreamServer::stop(std::chrono::milliseconds grace, std::chrono::milliseconds last_replies) {
  State& state = *state_;
  if (std::exchange(state.stopped, true)) return;
  if (state.threads.empty()) {
    state.listeners.clear();
    return;
  }
  // From here on a client that comes is refused at once, not left waiting. What ends a thread is
  // posted after all connections that another has handed to it, so that these are served as well.
  state.stop_accepting(state.listeners);
  const auto end_of_grace = std::chrono::steady_clock::now() + grace;
  for (ConnectionGroup& group : state.connections.groups) {
    asio::post(*group.context, [&group] {
      group.stopping = true;
      group.end_if_empty();
      tell_all(group, &AcceptedConnection::finish);
    });
  }
  state.tell_late_threads(end_of_grace, &AcceptedConnection::finish_begun);
  state.tell_late_threads(end_of_grace + last_replies, &AcceptedConnection::close);
  for (std::future<void>& thread : state.threads) thread.get();
}

void StreamServer::set_max_bytes(std::size_t bytes) {
  state_->connections.memory.set_most(bytes);
}

}  // namespace sluice
