#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "net/stream_server.h"
#include "testing/peer.h"

namespace sluice {

/// Lines: "close" says bye and closes, "big N" answers N bytes, any other is echoed. Two a call.
class LineHandler : public StreamHandler {
 public:
  Progress on_data(std::string_view input, std::string& output) override {
    Progress progress;
    for (int lines = 0; lines < 2; ++lines) {
      const std::string_view rest = input.substr(progress.consumed);
      const std::size_t end = rest.find('\n');
      if (end == std::string_view::npos) return progress;
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

/// Counts the bytes that it answers.
class CountingLineHandler : public LineHandler {
 public:
  explicit CountingLineHandler(std::atomic<std::size_t>& answered) : answered_(answered) {}

  Progress on_data(std::string_view input, std::string& output) override {
    const std::size_t before = output.size();
    const Progress progress = LineHandler::on_data(input, output);
    answered_ += output.size() - before;
    return progress;
  }

 private:
  std::atomic<std::size_t>& answered_;
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

/// Makes a `Handler` of these arguments for each connection.
template <class Handler, class... Arguments>
MakeHandler handlers_of(Arguments&... arguments) {
  return [&](const AcceptedStream&) { return std::make_unique<Handler>(arguments...); };
}
inline MakeHandler line_handlers() {
  return handlers_of<LineHandler>();
}

inline Address any_port() {
  return {Address::Family::kIpv4, "127.0.0.1", 0};
}

inline std::string temporary_path(const std::string& name) {
  return testing::TempDir() + "sluice_net_" + std::to_string(::getpid()) + "_" + name;
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

}  // namespace sluice
