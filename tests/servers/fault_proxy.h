#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "testing/unique_fd.h"

namespace sluice::servers {

/// A proxy between clients and a server on this machine that causes network faults. Each call
/// applies to existing and new connections, from the moment at which it returns. Thread-safe.
class FaultProxy {
 public:
  /// Starts to listen, without any fault. Throws std::system_error.
  explicit FaultProxy(std::uint16_t server_port);
  ~FaultProxy();

  /// The port on 127.0.0.1 for clients.
  std::uint16_t port() const { return port_; }

  /// Ends every fault below. Delayed replies still arrive at their time.
  void pass() {
    change([](Faults& faults) { faults = {}; });
  }
  /// Replies arrive later by `delay`.
  void delay_replies(std::chrono::milliseconds delay) {
    change([delay](Faults& faults) { faults.delay = delay; });
  }
  /// Requests reach the server, its replies are dropped.
  void swallow_replies() {
    change([](Faults& faults) { faults.swallows = true; });
  }
  /// Changes replies: the bytes of one read, usually one or several whole replies, are passed to
  /// `edit` before they are forwarded, on a thread of the proxy.
  void edit_replies(std::function<void(std::string& replies)> edit) {
    change([&](Faults& faults) { faults.edit = std::move(edit); });
  }
  /// Accepts connections, but forwards nothing in either direction until the stall ends.
  void stall() {
    change([](Faults& faults) { faults.stalls = true; });
  }
  /// Refuses new connections. Existing ones go on.
  void refuse() {
    change([](Faults& faults) { faults.refuses = true; });
  }
  /// Closes a connection after `reply_bytes` more bytes of its replies, once.
  void cut_after(std::size_t reply_bytes) {
    change([reply_bytes](Faults& faults) { faults.cut_after = reply_bytes; });
  }
  /// Closes all connections, after forwarding what has arrived and would be forwarded now.
  void cut_now();

  /// Connections accepted so far.
  std::size_t accepted() const {
    const std::lock_guard lock(mutex_);
    return accepted_;
  }
  /// Bytes of replies dropped so far. If there are any, the server has executed a request.
  std::size_t swallowed_bytes() const {
    const std::lock_guard lock(mutex_);
    return swallowed_bytes_;
  }

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;

  struct Faults {
    std::chrono::milliseconds delay{0};
    bool swallows = false;
    std::function<void(std::string&)> edit = {};
    bool stalls = false;
    bool refuses = false;
    std::optional<std::size_t> cut_after = {};
  };

  /// The bytes of one direction of a connection.
  struct Flow {
    struct Chunk {
      SteadyTime due;
      std::string bytes;
    };

    int from = -1;
    int to = -1;
    bool carries_replies = false;
    std::deque<Chunk> chunks = {};
    /// The sender has closed its side.
    bool has_ended = false;

    bool wants_more() const { return !has_ended && chunks.size() < 1'000; }
  };

  struct Link {
    ~Link();
    bool is_over() const;

    UniqueFd client;
    UniqueFd server;
    std::array<Flow, 2> flows;
  };

  void change(const std::function<void(Faults&)>& how);
  void run();
  int prepare_wait();
  void accept_all();
  void carry(Link& link);
  bool receive(Flow& flow);
  void cut(Flow& flow, std::string& bytes);
  static bool send(Flow& flow);

  const std::uint16_t server_port_;
  const std::uint16_t port_;
  /// The thread that forwards the bytes holds it except while it waits for bytes, so a setting that
  /// is changed under it applies to every later byte.
  mutable std::mutex mutex_;
  UniqueFd listener_;
  UniqueFd wake_;
  Faults faults_;
  std::list<Link> links_;
  std::vector<pollfd> waits_;
  std::size_t accepted_ = 0;
  std::size_t swallowed_bytes_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace sluice::servers
