#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace sluice::servers {

/// A proxy between clients and a server on this machine that causes network faults. Each call
/// applies to existing and new connections, from the moment at which it returns. Thread-safe.
class FaultProxy {
 public:
  /// Starts to listen, without any fault. Throws std::system_error.
  explicit FaultProxy(std::uint16_t server_port);
  ~FaultProxy();

  /// The port on 127.0.0.1 for clients.
  std::uint16_t port() const;

  /// Ends every fault below. Delayed replies still arrive at their time.
  void pass();
  /// Replies arrive later by `delay`.
  void delay_replies(std::chrono::milliseconds delay);
  /// Requests reach the server, its replies are dropped.
  void swallow_replies();
  /// Changes replies: the bytes of one read, usually one or several whole replies, are passed to
  /// `edit` before they are forwarded, on a thread of the proxy.
  void edit_replies(std::function<void(std::string& replies)> edit);
  /// Accepts connections, but forwards nothing in either direction until the stall ends.
  void stall();
  /// Refuses new connections. Existing ones go on.
  void refuse();
  /// Closes a connection after `reply_bytes` more bytes of its replies, once.
  void cut_after(std::size_t reply_bytes);
  /// Closes all connections, after forwarding what has arrived and would be forwarded now.
  void cut_now();

  /// Connections accepted so far.
  std::size_t accepted() const;
  /// Bytes of replies dropped so far. If there are any, the server has executed a request.
  std::size_t swallowed_bytes() const;

 private:
  class Relay;
  std::unique_ptr<Relay> relay_;
};

}  // namespace sluice::servers
