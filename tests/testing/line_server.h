#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "net/stream_server.h"
#include "testing/peer.h"

namespace sluice {

/// Lines: "close" says bye and closes, "big N" answers N bytes, any other is echoed. Two a call.
class LineHandler : public StreamHandler {
 public:
  LineHandler() { ++alive; }
  ~LineHandler() override { --alive; }

  static inline std::atomic<std::size_t> alive = 0;
  /// By all of them.
  static inline std::atomic<std::size_t> answered_bytes = 0;

  Progress on_data(std::string_view input, std::string& output) override {
    const std::size_t before = output.size();
    const Progress progress = answer(input, output);
    answered_bytes += output.size() - before;
    return progress;
  }
  void on_end(EndReason why, std::string& output) override {
    output += why == EndReason::kLate ? "too slow\n" : "no memory\n";
  }

 private:
  static Progress answer(std::string_view input, std::string& output) {
    Progress progress;
    for (int lines = 0; lines < 2; ++lines) {
      const std::string_view rest = input.substr(progress.consumed);
      const std::size_t end = rest.find('\n');
      if (end == std::string_view::npos) {
        progress.has_part = !rest.empty();
        return progress;
      }
      progress.consumed += end + 1;
      const std::string line(rest.substr(0, end));
      if (line == "close") {
        output += "bye\n";
        progress.next = Next::kClose;
        return progress;
      }
      if (line.starts_with("big ")) {
        output.append(std::stoul(line.substr(4)), 'x');
      } else {
        output += line + "\n";
      }
    }
    progress.next = Next::kMore;
    return progress;
  }
};

/// Does what a function does, which each connection has a copy of.
class CallingHandler final : public LineHandler {
 public:
  /// `lines` does as a LineHandler does.
  using OnData =
      std::function<Progress(LineHandler& lines, std::string_view input, std::string& output)>;
  explicit CallingHandler(OnData on_data) : on_data_(std::move(on_data)) {}

  Progress on_data(std::string_view input, std::string& output) override {
    LineHandler lines;
    return on_data_(lines, input, output);
  }

 private:
  OnData on_data_;
};
inline MakeHandler handlers_calling(CallingHandler::OnData on_data) {
  return [on_data = std::move(on_data)](const AcceptedStream&) {
    return std::make_unique<CallingHandler>(on_data);
  };
}

inline MakeHandler line_handlers() {
  return [](const AcceptedStream&) { return std::make_unique<LineHandler>(); };
}

/// A line that waits for its reply.
struct PendingLine {
  explicit PendingLine(Wake w) : wake(std::move(w)) {}

  /// From any thread.
  void answer() {
    answered = true;
    wake();
  }

  Wake wake;
  std::atomic<bool> answered = false;
};

/// Where lines wait until the test takes them. Thread-safe.
class PendingLines {
 public:
  void add(std::shared_ptr<PendingLine> line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    came_.notify_all();
  }

  /// The line that has waited longest. Throws if none arrives within ten seconds.
  std::shared_ptr<PendingLine> take() {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, std::chrono::seconds(10), [&] { return !lines_.empty(); })) {
      throw std::runtime_error("no line came");
    }
    std::shared_ptr<PendingLine> line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }
  /// Takes so many lines, and answers each.
  void answer(int lines) {
    for (int i = 0; i < lines; ++i) take()->answer();
  }

  std::atomic<std::size_t> most_input = 0;

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::shared_ptr<PendingLine>> lines_;
};

/// Lines that begin with '=' go to LineHandler without that sign; all others are echoed when the
/// test answers them.
class LaterHandler final : public LineHandler {
 public:
  LaterHandler(PendingLines& lines, Wake wake) : lines_(lines), wake_(std::move(wake)) {}

  Progress on_data(std::string_view input, std::string& output) override {
    lines_.most_input = std::max(lines_.most_input.load(), input.size());
    if (pending_ != nullptr) {
      if (!pending_->answered) return {0, Next::kLater};
      output += text_;
      pending_.reset();
    }
    const std::size_t end = input.find('\n');
    if (end == std::string_view::npos) return {};
    if (input.starts_with('=')) {
      Progress progress = LineHandler::on_data(input.substr(1, end), output);
      progress.consumed = end + 1;
      if (progress.next == Next::kNeedMore) progress.next = Next::kMore;
      return progress;
    }
    text_ = input.substr(0, end + 1);
    pending_ = std::make_shared<PendingLine>(wake_);
    lines_.add(pending_);
    return {end + 1, Next::kLater};
  }

 private:
  PendingLines& lines_;
  Wake wake_;
  std::string text_;
  std::shared_ptr<PendingLine> pending_;
};
inline MakeHandler later_handlers(PendingLines& lines) {
  return [&](AcceptedStream stream) {
    return std::make_unique<LaterHandler>(lines, std::move(stream.wake));
  };
}

inline Address any_port() {
  return {Address::Family::kIpv4, "127.0.0.1", 0};
}

inline std::string temporary_path(const std::string& name) {
  return testing::TempDir() + "sluice_net_" + std::to_string(::getpid()) + "_" + name;
}

inline Service line_service(MakeHandler handlers = line_handlers()) {
  return {any_port(), std::move(handlers), "no room\n"};
}

inline StreamServer make_server(const Address& address, const StreamServerOptions& options = {}) {
  return StreamServer({{address, line_handlers(), "no room\n"}}, options);
}

/// Of a Unix socket, or of a port of 127.0.0.1.
inline boost::asio::generic::stream_protocol::endpoint socket_address(const Address& address) {
  if (address.family == Address::Family::kUnix) {
    return boost::asio::local::stream_protocol::endpoint(address.host);
  }
  return boost::asio::ip::tcp::endpoint(boost::asio::ip::address_v4::loopback(), address.port);
}

/// A connection to a server.
class Client : public Peer {
 public:
  explicit Client(const Address& address, int receive_buffer_bytes = 0)
      : Peer(UniqueFd(::socket(address.family == Address::Family::kUnix ? AF_UNIX : AF_INET,
                               SOCK_STREAM, 0))) {
    if (receive_buffer_bytes != 0) {
      ::setsockopt(fd(), SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(int));
    }
    const auto to = socket_address(address);
    connected_ = ::connect(fd(), to.data(), static_cast<socklen_t>(to.size())) == 0;
  }

  bool connected() const { return connected_; }

 private:
  bool connected_ = false;
};

/// A server, which is destroyed before what its handlers use.
class StreamServerFixture : public testing::Test {
 protected:
  void TearDown() override { server_.reset(); }

  /// Clients can connect and send, but the server reads nothing before server_->start().
  void listen(const std::vector<Service>& services, const StreamServerOptions& options = {}) {
    server_ = std::make_unique<StreamServer>(services, options);
  }
  void serve(const Service& service = line_service(), const StreamServerOptions& options = {}) {
    listen({service}, options);
    server_->start();
  }
  Address address(std::size_t service = 0) const { return server_->addresses()[service]; }

  /// False where another number of connections has a LineHandler after ten seconds.
  static bool await_connections(std::size_t open) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (LineHandler::alive != open && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    return LineHandler::alive == open;
  }

  std::unique_ptr<StreamServer> server_;
};

}  // namespace sluice
