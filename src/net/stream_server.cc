#include "net/stream_server.h"

#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <cassert>
#include <deque>
#include <functional>
#include <future>
#include <latch>
#include <utility>

#include "net/connection.h"
#include "net/listener.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::chrono::milliseconds kAcceptPause{100};

/// Tells a peer that there are too many, and closes.
void refuse(ServingSocket socket, const std::string& refusal) {
  error_code ignored;
  socket.non_blocking(true, ignored);
  // The peer's receive buffer is empty, so one attempt delivers the line.
  socket.write_some(asio::buffer(refusal), ignored);
  // Many clients speak first, and closing a socket with unread input resets it, which may overtake
  // the line. So this side ends first, and what has come is read and ignored.
  socket.shutdown(ServingSocket::shutdown_send, ignored);
  std::array<char, 16 * 1024> input;
  socket.read_some(asio::buffer(input), ignored);
}

}  // namespace

/// One thread and its connections. Members other than context() belong to that thread, or, before
/// it runs, to the one that made the worker.
class StreamWorker {
 public:
  StreamWorker(std::size_t thread, const StreamServerOptions& options,
               std::atomic<std::size_t>& open)
      : thread_(thread),
        max_connections_(options.max_connections),
        group_{.limits = options.limits,
               .open = open,
               .context = std::make_shared<asio::io_context>(1)} {}

  asio::io_context& context() { return *group_.context; }

  /// Serves a peer, or refuses it.
  void serve(ServingSocket socket, const Service& service) {
    if (group_.open.fetch_add(1) >= max_connections_) {
      group_.open.fetch_sub(1);
      refuse(std::move(socket), service.refusal);
      return;
    }
    std::make_shared<Connection>(std::move(socket), group_)->start(service.make_handler, thread_);
  }

  /// Answers what has come. The context stops running when all is sent.
  void finish() {
    group_.stopping = true;
    if (group_.members.empty()) group_.work.reset();
    for (const auto& connection : std::vector(group_.members.begin(), group_.members.end())) {
      connection->finish();
    }
  }

  void close_all() {
    for (const auto& connection : std::vector(group_.members.begin(), group_.members.end())) {
      connection->close();
    }
  }

 private:
  const std::size_t thread_;
  const std::size_t max_connections_;
  ConnectionGroup group_;
};

/// Accepts from one listening socket, and hands the connections to its workers in turn. Belongs to
/// the thread of its socket.
class StreamAcceptor {
 public:
  /// `service` and `workers` outlive it.
  StreamAcceptor(ServingAcceptor socket, const Service& service, std::vector<StreamWorker*> workers)
      : socket_(std::move(socket)),
        pause_(socket_.get_executor()),
        service_(service),
        workers_(std::move(workers)) {
    accept();
  }

  ServingExecutor executor() { return socket_.get_executor(); }

  /// Accepts those that have connected, as far as there are descriptors, and closes the socket.
  void stop() {
    // Closing resets the peers that wait to be accepted. No more are accepted than have connected
    // before, so that new ones cannot keep the server from its end.
    error_code error;
    socket_.non_blocking(true, error);
    for (int i = 0; i <= kListenBacklog && !error; ++i) {
      StreamWorker& worker = next_worker();
      ServingSocket peer(worker.context());
      socket_.accept(peer, error);
      if (!error) hand_over(std::move(peer), worker);
    }
    pause_.cancel();
    socket_.close(error);
  }

 private:
  void accept() {
    if (!socket_.is_open()) return;
    StreamWorker& worker = next_worker();
    socket_.async_accept(worker.context(),
                         [this, &worker](const error_code& error, ServingSocket peer) {
                           if (!error) {
                             hand_over(std::move(peer), worker);
                             accept();
                           } else if (error != asio::error::operation_aborted) {
                             // Most likely the system is out of descriptors, and trying again at
                             // once would spin.
                             pause_.expires_after(kAcceptPause);
                             pause_.async_wait([this](const error_code& cancelled) {
                               if (!cancelled) accept();
                             });
                           }
                         });
  }

  StreamWorker& next_worker() { return *workers_[next_++ % workers_.size()]; }

  void hand_over(ServingSocket peer, StreamWorker& worker) {
    asio::dispatch(worker.context(), [this, &worker, peer = std::move(peer)]() mutable {
      worker.serve(std::move(peer), service_);
    });
  }

  ServingAcceptor socket_;
  ServingTimer pause_;
  const Service& service_;
  const std::vector<StreamWorker*> workers_;
  std::size_t next_ = 0;
};

struct StreamServer::State {
  std::vector<Service> services;
  StreamServerOptions options;
  std::atomic<std::size_t> connections = 0;
  std::deque<StreamWorker> workers;
  std::deque<Listener> listeners;
  std::deque<StreamAcceptor> acceptors;
  std::vector<std::future<void>> threads;
  bool stopped = false;

  void listen(const Service& service);
};

/// A TCP service is accepted by every worker for itself, a Unix socket by the first for all.
void StreamServer::State::listen(const Service& service) {
  std::vector<StreamWorker*> all;
  std::vector<asio::io_context*> contexts;
  for (StreamWorker& worker : workers) {
    all.push_back(&worker);
    contexts.push_back(&worker.context());
  }
  std::vector<ServingAcceptor> sockets =
      listeners.emplace_back(service.address, contexts).take_sockets();
  const bool shared = sockets.size() < all.size();
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    acceptors.emplace_back(std::move(sockets[i]), service,
                           shared ? all : std::vector<StreamWorker*>{all[i]});
  }
}

StreamServer::StreamServer(std::vector<Service> services, const StreamServerOptions& options)
    : state_(std::make_unique<State>()) {
  assert(options.threads >= 1);
  state_->services = std::move(services);
  state_->options = options;
  for (std::size_t i = 0; i < options.threads; ++i) {
    state_->workers.emplace_back(i, state_->options, state_->connections);
  }
  for (const Service& service : state_->services) state_->listen(service);
}

StreamServer::~StreamServer() {
  stop(std::chrono::milliseconds(0));
}

std::vector<Address> StreamServer::addresses() const {
  std::vector<Address> addresses;
  for (const Listener& listener : state_->listeners) addresses.push_back(listener.address());
  return addresses;
}

void StreamServer::start() {
  assert(state_->threads.empty());
  for (StreamWorker& worker : state_->workers) {
    state_->threads.push_back(
        std::async(std::launch::async, [&worker]() noexcept { worker.context().run(); }));
  }
}

void StreamServer::stop(std::chrono::milliseconds grace) {
  State& state = *state_;
  if (std::exchange(state.stopped, true)) return;
  for (Listener& listener : state.listeners) listener.remove_file();
  if (state.threads.empty()) {
    state.acceptors.clear();
    return;
  }
  std::latch accepting(static_cast<std::ptrdiff_t>(state.acceptors.size()));
  for (StreamAcceptor& acceptor : state.acceptors) {
    asio::post(acceptor.executor(), [&acceptor, &accepting] {
      acceptor.stop();
      // Posted, since a peer may have been accepted already and wait to be handed over.
      asio::post(acceptor.executor(), [&accepting] { accepting.count_down(); });
    });
  }
  // From here on a client that comes is refused at once, not left waiting. What ends a worker is
  // posted after all connections that another has handed to it, so that these are served as well.
  accepting.wait();
  const auto end = std::chrono::steady_clock::now() + grace;
  for (StreamWorker& worker : state.workers) {
    asio::post(worker.context(), [&worker] { worker.finish(); });
  }
  for (std::size_t i = 0; i < state.threads.size(); ++i) {
    if (state.threads[i].wait_until(end) != std::future_status::ready) {
      StreamWorker& worker = state.workers[i];
      asio::post(worker.context(), [&worker] { worker.close_all(); });
    }
    state.threads[i].get();
  }
}

std::size_t StreamServer::connections() const {
  return state_->connections.load();
}

}  // namespace sluice
