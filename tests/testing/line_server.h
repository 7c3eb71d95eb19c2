#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>

#include "net/stream_server.h"
#include "testing/unique_fd.h"

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

/// A blocking client that gives up, and fails its test, after ten seconds.
class Client {
 public:
  explicit Client(const Address& address, int receive_buffer_bytes = 0)
      : fd_(::socket(address.family == Address::Family::kUnix ? AF_UNIX : AF_INET, SOCK_STREAM,
                     0)) {
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (receive_buffer_bytes != 0) {
      ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(int));
    }
    connected_ = address.family == Address::Family::kUnix ? connect_unix(address.host)
                                                          : connect_ipv4(address.port);
  }

  bool connected() const { return connected_; }
  int fd() const { return fd_.get(); }
  bool send(std::string_view text) {
    return ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  /// Sends a line and reads it back.
  bool echoes(std::string_view line) { return send(line) && read(line.size()) == line; }
  void end() { ::shutdown(fd_.get(), SHUT_WR); }

  std::string read(std::size_t bytes) {
    std::string text(bytes, '\0');
    std::size_t got = 0;
    while (got < bytes) {
      const ssize_t n = ::recv(fd_.get(), text.data() + got, bytes - got, 0);
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    return text.substr(0, got);
  }

  /// All bytes until the other side ends the stream; with "(reset)" or "(timeout)" at the end if it
  /// does not.
  std::string read_all() {
    std::string text;
    std::string piece(65536, '\0');
    while (true) {
      const ssize_t n = ::recv(fd_.get(), piece.data(), piece.size(), 0);
      if (n == 0) return text;
      if (n < 0) return text + (errno == EAGAIN ? "(timeout)" : "(reset)");
      text.append(piece, 0, static_cast<std::size_t>(n));
    }
  }

 private:
  bool connect_ipv4(std::uint16_t port) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  }
  bool connect_unix(const std::string& path) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    path.copy(to.sun_path, sizeof(to.sun_path) - 1);
    return ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  }

  UniqueFd fd_;
  bool connected_ = false;
};

}  // namespace sluice
