#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "servers/socket.h"

namespace sluice::faults {

/// A server whose replies a test chooses: any reply of a Redis server, or of another program that
/// happens to listen on its port.
class FakeRedis {
 public:
  using Words = std::vector<std::string>;
  /// The bytes of the reply to a command, which may be empty; std::nullopt for the usual reply,
  /// with which a handshake succeeds, and a cluster is one node with all slots. Runs on the threads
  /// of the server, of which each connection has one.
  using Script = std::function<std::optional<std::string>(const Words&)>;

  /// Listens on a free port of 127.0.0.1. Throws std::system_error.
  explicit FakeRedis(Script script);
  /// REQUIRES: the stores that use it are destroyed. Waits until their connections have ended.
  ~FakeRedis();

  std::uint16_t port() const { return port_; }
  std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }
  /// The number of script calls so far.
  int calls() const { return calls_.load(); }

 private:
  void accept_all();
  void serve(UniqueFd socket);
  std::string answer(const Words& words);

  const std::uint16_t port_ = servers::free_port();
  const Script script_;
  const UniqueFd listener_ = servers::listen_on(port_);
  std::atomic<int> calls_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::jthread> connections_;  // Used only by the thread until it has ended.
  std::jthread thread_;
};

}  // namespace sluice::faults
