#include "net/stream_server.h"

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <latch>
#include <thread>
#include <utility>

#include "net/stream_worker.h"

namespace sluice {

struct StreamServer::State {
  std::vector<Service> services;
  StreamServerOptions options;
  std::atomic<std::size_t> connections = 0;
  std::deque<Listener> listeners;
  std::vector<std::unique_ptr<StreamWorker>> workers;
  std::vector<std::thread> threads;
  // Only the first worker's thread uses it.
  std::size_t next_worker = 0;
  bool stopped = false;

  void listen(std::size_t service_index);
  void spread(const Service& service, UniqueFd socket);
  void post_to_all(const std::function<void(StreamWorker&)>& task);
};

/// A TCP service is accepted by every worker for itself, a Unix socket by the first for all.
void StreamServer::State::listen(std::size_t service_index) {
  const Service& service = services[service_index];
  Listener& listener = listeners[service_index];
  if (listener.address().family == Address::Family::kUnix) {
    workers[0]->listen(listener.take_socket(0),
                       [this, &service](UniqueFd socket) { spread(service, std::move(socket)); });
    return;
  }
  for (std::size_t i = 0; i < workers.size(); ++i) {
    StreamWorker& worker = *workers[i];
    worker.listen(listener.take_socket(i), [&worker, &service](UniqueFd socket) {
      worker.serve(std::move(socket), service.make_handler, service.refusal);
    });
  }
}

void StreamServer::State::spread(const Service& service, UniqueFd socket) {
  StreamWorker& worker = *workers[next_worker];
  next_worker = (next_worker + 1) % workers.size();
  const auto shared = std::make_shared<UniqueFd>(std::move(socket));
  worker.loop().post([&worker, &service, shared] {
    worker.serve(std::move(*shared), service.make_handler, service.refusal);
  });
}

void StreamServer::State::post_to_all(const std::function<void(StreamWorker&)>& task) {
  for (const std::unique_ptr<StreamWorker>& worker : workers) {
    worker->loop().post([&worker = *worker, task] { task(worker); });
  }
}

StreamServer::StreamServer(std::vector<Service> services, const StreamServerOptions& options)
    : state_(std::make_unique<State>()) {
  state_->services = std::move(services);
  state_->options = options;
  for (const Service& service : state_->services) {
    state_->listeners.emplace_back(service.address, options.threads);
  }
  for (std::size_t i = 0; i < options.threads; ++i) {
    state_->workers.push_back(std::make_unique<StreamWorker>(
        StreamWorker::Config{.thread = i,
                             .max_connections = options.max_connections,
                             .limits = options.limits,
                             .connections = state_->connections}));
  }
  for (std::size_t i = 0; i < state_->services.size(); ++i) state_->listen(i);
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
  for (const std::unique_ptr<StreamWorker>& worker : state_->workers) {
    state_->threads.emplace_back([&loop = worker->loop()] { loop.run(); });
  }
}

void StreamServer::stop(std::chrono::milliseconds grace) {
  if (std::exchange(state_->stopped, true)) return;
  for (Listener& listener : state_->listeners) listener.remove_file();
  std::latch accepting(static_cast<std::ptrdiff_t>(state_->threads.size()));
  state_->post_to_all([&accepting](StreamWorker& worker) {
    worker.stop_accepting();
    accepting.count_down();
  });
  // From here on who comes is refused at once, not left waiting. What ends a worker is posted after
  // all that the first one has spread to it, so that these are served like any other.
  accepting.wait();
  state_->post_to_all([grace](StreamWorker& worker) { worker.finish(grace); });
  for (std::thread& thread : state_->threads) thread.join();
  state_->workers.clear();
}

std::size_t StreamServer::connections() const {
  return state_->connections.load();
}

}  // namespace sluice
