#include "net/connector.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace sluice {
namespace {

std::string reason_of(int error) {
  return std::generic_category().message(error);
}

bool is_its_own_peer(int fd) {
  SocketAddress own;
  SocketAddress peer;
  own.bytes = peer.bytes = sizeof(sockaddr_storage);
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&own.storage), &own.bytes) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer.storage), &peer.bytes) == 0 &&
         own.family() != AF_UNIX && own.bytes == peer.bytes &&
         std::memcmp(own.get(), peer.get(), own.bytes) == 0;
}

}  // namespace

int connect_error(int fd) {
  int error = 0;
  socklen_t bytes = sizeof(error);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) return errno;
  if (error != 0 || !is_its_own_peer(fd)) return error;
  // Closed without a reset, the socket would keep the server from its port for a minute more.
  const linger reset{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  return ECONNREFUSED;
}

Connector::Connector(EventLoop& loop, const Endpoint& endpoint, EventSink& sink,
                     std::function<void()> on_found, NameLookup::Resolve resolve)
    : loop_(loop),
      endpoint_(endpoint),
      sink_(sink),
      on_found_(std::move(on_found)),
      resolve_(resolve) {
  if (endpoint.tls) tls_.emplace(endpoint);
}

Connector::Progress Connector::begin() {
  step_ = Step::kFinding;
  tried_ = 0;
  fault_.clear();
  if (lookup_ != nullptr) return Progress::kWaiting;
  // Found since the attempt before this one was abandoned.
  if (!found_.addresses.empty()) return advance();
  if (std::optional<FoundAddresses> known = known_address(endpoint_)) {
    found_ = std::move(*known);
    return advance();
  }
  const auto on_found = [this](FoundAddresses found) {
    found_ = std::move(found);
    lookup_.reset();
    on_found_();
  };
  lookup_ = std::make_unique<NameLookup>(loop_, endpoint_, on_found, resolve_);
  return Progress::kWaiting;
}

Connector::Progress Connector::advance() {
  Progress progress = Progress::kWaiting;
  switch (step_) {
    case Step::kResting:
      return progress;
    case Step::kFinding:
      return find();
    case Step::kConnecting:
      progress = finish_connecting();
      break;
    case Step::kShakingHands:
      progress = shake_hands();
      break;
  }
  if (progress != Progress::kFailed) return progress;
  drop_socket();
  ++tried_;
  return try_addresses();
}

Connector::Progress Connector::find() {
  if (lookup_ != nullptr) return Progress::kWaiting;
  if (found_.addresses.empty()) return fail(found_.fault);
  return try_addresses();
}

const SocketAddress& Connector::current() const {
  return found_.addresses[(first_ + tried_) % found_.addresses.size()];
}

Connector::Progress Connector::try_addresses() {
  for (; tried_ < found_.addresses.size(); ++tried_) {
    const Progress progress = open(current());
    if (progress != Progress::kFailed) return progress;
    drop_socket();
  }
  return Progress::kFailed;
}

Connector::Progress Connector::open(const SocketAddress& address) {
  step_ = Step::kConnecting;
  socket_ = UniqueFd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_ || !set_options(address)) return fail(reason_of(errno));
  const bool connected = ::connect(socket_.get(), address.get(), address.bytes) == 0;
  if (!connected && errno != EINPROGRESS && errno != EINTR) return fail(reason_of(errno));
  if (!loop_.add(socket_.get(), EPOLLOUT, sink_)) return fail(reason_of(errno));
  return finish_connecting();
}

bool Connector::set_options(const SocketAddress& address) {
  if (address.family() == AF_UNIX) return true;
  const int on = 1;
  return ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0 &&
         ::setsockopt(socket_.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) == 0;
}

Connector::Progress Connector::finish_connecting() {
  pollfd ready{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&ready, 1, 0) <= 0) return Progress::kWaiting;
  const int error = connect_error(socket_.get());
  if (error != 0) return fail(reason_of(error));
  step_ = Step::kShakingHands;
  stream_ = tls_ ? tls_->wrap(std::move(socket_)) : make_plain_stream(std::move(socket_));
  return shake_hands();
}

Connector::Progress Connector::shake_hands() {
  switch (stream_->shake_hands().status) {
    case Transfer::Status::kMoved:
      step_ = Step::kResting;
      return Progress::kConnected;
    case Transfer::Status::kMustRead:
      loop_.modify(stream_->fd(), EPOLLIN, sink_);
      return Progress::kWaiting;
    case Transfer::Status::kMustWrite:
      loop_.modify(stream_->fd(), EPOLLOUT, sink_);
      return Progress::kWaiting;
    case Transfer::Status::kEnded:
      return fail("the server closed the connection");
    case Transfer::Status::kFailed:
      break;
  }
  return fail(stream_->fault());
}

std::unique_ptr<ClientStream> Connector::take() {
  return std::move(stream_);
}

void Connector::abandon(bool of_no_use) {
  of_no_use = of_no_use || step_ == Step::kConnecting || step_ == Step::kShakingHands;
  if (of_no_use) first_ += tried_ + 1;
  drop_socket();
  found_ = {};
  step_ = Step::kResting;
}

void Connector::drop_socket() {
  if (stream_ != nullptr) loop_.remove(stream_->fd());
  stream_.reset();
  if (socket_) loop_.remove(socket_.get());
  socket_.reset();
}

std::string Connector::doing() const {
  const std::string server = endpoint_.text();
  if (step_ == Step::kFinding) return "find the address of " + server;
  if (step_ == Step::kShakingHands) return "agree on TLS with " + server;
  const std::string address = found_.addresses.empty() ? "" : current().text();
  const bool is_name = !address.empty() && address != endpoint_.host;
  return "connect to " + server + (is_name ? " (" + address + ")" : "");
}

Connector::Progress Connector::fail(const std::string& reason) {
  fault_ = "cannot " + doing() + ": " + reason;
  return Progress::kFailed;
}

}  // namespace sluice
