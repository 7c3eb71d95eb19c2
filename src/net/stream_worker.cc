#include "net/stream_worker.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <system_error>
#include <utility>

#include "net/listener.h"

namespace sluice {
namespace {

constexpr int kAcceptsPerRound = 64;
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kLongestSweepInterval{1000};

}  // namespace

Acceptor::Acceptor(EventLoop& loop, UniqueFd socket, Accepted accepted)
    : loop_(loop),
      socket_(std::move(socket)),
      accepted_(std::move(accepted)),
      pause_(loop, [this] { loop_.modify(socket_.get(), EPOLLIN, *this); }) {
  if (!loop_.add(socket_.get(), EPOLLIN, *this)) {
    throw std::system_error(errno, std::generic_category(), "cannot watch a listening socket");
  }
}

void Acceptor::on_events(std::uint32_t) {
  if (accept(kAcceptsPerRound)) return;
  loop_.modify(socket_.get(), 0, *this);
  pause_.set(kAcceptPause);
}

/// False where the system is out of descriptors or memory.
bool Acceptor::accept(int most) {
  for (int i = 0; i < most; ++i) {
    UniqueFd peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (peer) {
      hand_over(std::move(peer));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      return false;
    } else if (errno == EAGAIN) {
      return true;
    }
    // Anything else is the failure of a peer that has gone; the next may wait.
  }
  return true;
}

void Acceptor::hand_over(UniqueFd peer) {
  try {
    accepted_(std::move(peer));
  } catch (const std::exception&) {
    // There is no memory for this peer: it is closed, and the others are served.
  }
}

void Acceptor::stop() {
  // Closing resets whoever waits to be accepted. No more are accepted than have connected before,
  // so that those who keep coming cannot keep the server from its end.
  accept(kListenBacklog + 1);
  pause_.cancel();
  socket_.reset();
}

StreamWorker::StreamWorker(const Config& config)
    : config_(config),
      context_{.loop = loop_,
               .limits = config.limits,
               .output = {},
               .drop = [this](Connection& connection) { drop(connection); },
               .watch = [this] { watch(); }} {}

StreamWorker::~StreamWorker() {
  config_.connections.fetch_sub(connections_.size());
}

void StreamWorker::listen(UniqueFd socket, Acceptor::Accepted accepted) {
  acceptors_.push_back(std::make_unique<Acceptor>(loop_, std::move(socket), std::move(accepted)));
}

void StreamWorker::serve(UniqueFd socket, const HandlerFactory& make_handler,
                         const std::string& refusal) {
  if (config_.connections.fetch_add(1) >= config_.max_connections) {
    config_.connections.fetch_sub(1);
    // The peer's receive buffer is empty, so one attempt delivers the line.
    ::send(socket.get(), refusal.data(), refusal.size(), MSG_NOSIGNAL);
    // Many clients speak first, and closing a socket with unread input resets it, which may
    // overtake the line. So our side ends first, and what has come is read and forgotten.
    ::shutdown(socket.get(), SHUT_WR);
    ::recv(socket.get(), context_.input.data(), context_.input.size(), MSG_DONTWAIT);
    return;
  }
  try {
    auto waker = std::make_shared<ConnectionWaker>(loop_);
    connections_.push_back(
        std::make_unique<Connection>(ConnectionParts{.socket = std::move(socket),
                                                     .handler = make_handler(config_.thread, waker),
                                                     .waker = waker},
                                     context_));
  } catch (const std::exception&) {
    config_.connections.fetch_sub(1);  // There is no memory for it: it is closed.
    return;
  }
  Connection& connection = *connections_.back();
  connection.index = connections_.size() - 1;
  if (!connection.start()) drop(connection);
}

void StreamWorker::drop(Connection& connection) {
  const std::size_t index = connection.index;
  std::swap(connections_[index], connections_.back());
  connections_[index]->index = index;
  // Before the peer can notice: whoever then connects in its place finds room.
  config_.connections.fetch_sub(1);
  connections_.pop_back();
  if (context_.stopping && connections_.empty()) loop_.stop();
}

void StreamWorker::watch() {
  if (sweep_.is_set()) return;
  const auto shortest = std::min(config_.limits.stuck_timeout, config_.limits.linger_timeout);
  sweep_.set(std::min(kLongestSweepInterval, shortest / 4 + std::chrono::milliseconds(1)));
}

void StreamWorker::sweep() {
  const EventLoop::Clock::time_point now = EventLoop::Clock::now();
  bool waiting = false;
  // From the back: the one that takes a dropped one's place has been looked at.
  for (std::size_t i = connections_.size(); i-- > 0;) {
    if (connections_[i]->expired(now)) {
      drop(*connections_[i]);
    } else {
      waiting = waiting || connections_[i]->waits();
    }
  }
  if (waiting) watch();
}

void StreamWorker::stop_accepting() {
  for (const std::unique_ptr<Acceptor>& acceptor : acceptors_) acceptor->stop();
}

void StreamWorker::finish(std::chrono::milliseconds grace) {
  context_.stopping = true;
  for (std::size_t i = connections_.size(); i-- > 0;) {
    if (!connections_[i]->finish_reading()) drop(*connections_[i]);
  }
  if (connections_.empty()) {
    loop_.stop();
  } else {
    grace_.set(grace);
  }
}

}  // namespace sluice
