#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace sluice::servers {

/// Stands between clients and a server of this machine and does what networks do. What is asked of
/// it holds for connections that exist as for those to come, from the moment the call returns.
/// Thread-safe.
class FaultProxy {
 public:
  /// Begins to listen, and lets everything pass. Throws std::system_error.
  explicit FaultProxy(std::uint16_t server_port);
  ~FaultProxy();

  /// Where clients connect on 127.0.0.1.
  std::uint16_t port() const;

  /// Ends every fault below. What was delayed still comes when it is due.
  void pass();
  /// Replies come so much later.
  void delay_replies(std::chrono::milliseconds delay);
  /// Requests reach the server, its replies go nowhere.
  void swallow_replies();
  /// Replies are changed as they come: what was received at once, most often one or several whole
  /// replies, is handed to `edit` before it passes, on a thread of the proxy's.
  void edit_replies(std::function<void(std::string& replies)> edit);
  /// Connections are accepted and nothing is carried either way; it is when the stall ends.
  void stall();
  /// No new connections. Those that exist go on.
  void refuse();
  /// After so many more bytes of replies their connection is closed, once.
  void cut_after(std::size_t reply_bytes);
  /// Closes every connection that exists.
  void cut_now();

  /// Connections accepted so far.
  std::size_t accepted() const;
  /// Bytes of replies swallowed so far: once there are any, the server has carried something out.
  std::size_t swallowed_bytes() const;

 private:
  class Relay;
  std::unique_ptr<Relay> relay_;
};

}  // namespace sluice::servers
