// sluice_constant_server ADDRESS N,N,N,N,N: answers every RESP command with the same five integers.
// It shows the minimum cost of a correct server, which splits its input into commands and decides
// nothing. One thread, level-triggered epoll, one read and one write per event. A malformed frame,
// or one beyond the bounds, closes the connection.

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "load/sockets.h"

namespace sluice::bench {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{64} * 1024;
constexpr std::size_t kMostArguments = 64;
constexpr std::size_t kRepliesAtOnce = 1024;
/// A connection with this many unread bytes is closed.
constexpr std::size_t kMostPendingBytes = std::size_t{1} << 20;
constexpr int kEventsAtOnce = 64;

/// Parses "<sign><digits>\r\n" at `*at`, and moves `*at` past it. Returns the number, -1 if the
/// line is incomplete, or -2 if it is malformed or the number exceeds the buffer's size.
int read_head(char sign, const char** at, const char* end) {
  const char* p = *at;
  if (p == end) return -1;
  if (*p++ != sign) return -2;
  std::size_t value = 0;
  const char* const digits = p;
  for (; p != end && *p >= '0' && *p <= '9'; ++p) {
    value = value * 10 + static_cast<std::size_t>(*p - '0');
    if (value > kBufferBytes) return -2;
  }
  if (end - p < 2) return p == end || *p == '\r' ? -1 : -2;
  if (p == digits || p[0] != '\r' || p[1] != '\n') return -2;
  *at = p + 2;
  return static_cast<int>(value);
}

struct Split {
  std::size_t commands = 0;
  std::size_t bytes = 0;
  bool malformed = false;
};

/// Counts the complete commands at the front.
Split split_commands(std::string_view input) {
  Split split;
  const char* const end = input.data() + input.size();
  const char* at = input.data();
  while (at != end) {
    int arguments = read_head('*', &at, end);
    split.malformed = arguments == -2 || arguments > static_cast<int>(kMostArguments);
    if (arguments < 0 || split.malformed) return split;
    for (; arguments > 0; --arguments) {
      const int bulk = read_head('$', &at, end);
      split.malformed = bulk == -2;
      if (bulk < 0 || end - at < bulk + 2) return split;
      at += bulk;
      split.malformed = at[0] != '\r' || at[1] != '\n';
      if (split.malformed) return split;
      at += 2;
    }
    ++split.commands;
    split.bytes = static_cast<std::size_t>(at - input.data());
  }
  return split;
}

struct Connection {
  Socket socket;
  /// All replies are equal, so unsent output is a number of bytes, and the offset in the reply at
  /// which it starts.
  std::size_t pending = 0;
  std::size_t phase = 0;
  std::size_t held = 0;
  bool watches_writes = false;
  std::array<char, kBufferBytes> buffer;
};

class ConstantServer {
 public:
  ConstantServer(Socket listener, const std::string& reply)
      : listener_(std::move(listener)), reply_bytes_(reply.size()) {
    for (std::size_t i = 0; i < kRepliesAtOnce + 1; ++i) replies_ += reply;
    epoll_ = Socket(epoll_create1(EPOLL_CLOEXEC));
    watch(EPOLL_CTL_ADD, listener_.fd(), EPOLLIN);
  }

  void serve() {
    std::array<epoll_event, kEventsAtOnce> events;
    for (;;) {
      const int ready = epoll_wait(epoll_.fd(), events.data(), kEventsAtOnce, -1);
      if (ready < 0 && errno != EINTR) return;
      for (int i = 0; i < ready; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        if (event.data.fd == listener_.fd()) {
          accept_one();
        } else if (!handle(event.data.fd, event.events)) {
          connections_.erase(event.data.fd);
        }
      }
    }
  }

 private:
  bool watch(int operation, int fd, std::uint32_t events) {
    epoll_event event{.events = events, .data = {.fd = fd}};
    return epoll_ctl(epoll_.fd(), operation, fd, &event) == 0;
  }

  void accept_one() {
    Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket || !watch(EPOLL_CTL_ADD, socket.fd(), EPOLLIN)) return;
    set_no_delay(socket.fd());
    const int fd = socket.fd();
    auto connection = std::make_unique<Connection>();
    connection->socket = std::move(socket);
    connections_[fd] = std::move(connection);
  }

  bool handle(int fd, std::uint32_t events) {
    Connection& connection = *connections_.at(fd);
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !read(&connection)) return false;
    return connection.pending == 0 || write(&connection);
  }

  bool read(Connection* connection) const {
    const ssize_t got = recv(connection->socket.fd(), connection->buffer.data() + connection->held,
                             connection->buffer.size() - connection->held, 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    const std::size_t bytes = connection->held + static_cast<std::size_t>(got);
    const Split split = split_commands({connection->buffer.data(), bytes});
    connection->held = bytes - split.bytes;
    if (split.malformed || connection->held == connection->buffer.size()) return false;
    if (connection->held > 0) {
      std::memmove(connection->buffer.data(), connection->buffer.data() + split.bytes,
                   connection->held);
    }
    connection->pending += split.commands * reply_bytes_;
    return connection->pending <= kMostPendingBytes;
  }

  bool write(Connection* connection) {
    while (connection->pending > 0) {
      const std::size_t bytes = std::min(connection->pending, replies_.size() - connection->phase);
      const ssize_t sent =
          send(connection->socket.fd(), replies_.data() + connection->phase, bytes, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno != EAGAIN) return false;
      if (sent < 0) break;
      connection->pending -= static_cast<std::size_t>(sent);
      connection->phase = (connection->phase + static_cast<std::size_t>(sent)) % reply_bytes_;
    }
    const bool wants = connection->pending > 0;
    if (wants == connection->watches_writes) return true;
    connection->watches_writes = wants;
    return watch(EPOLL_CTL_MOD, connection->socket.fd(), wants ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }

  Socket listener_;
  Socket epoll_;
  std::size_t reply_bytes_;
  std::string replies_;
  std::unordered_map<int, std::unique_ptr<Connection>> connections_;
};

/// Renders "0,16,15,-1,2" as a RESP array; empty if the text is not five integers.
std::string render_reply(std::string_view text) {
  std::string reply = "*5\r\n:";
  int numbers = 1;
  for (const char c : text) {
    if (c == ',') {
      reply += "\r\n:";
      ++numbers;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      reply += c;
    } else {
      return {};
    }
  }
  return numbers == 5 ? reply + "\r\n" : std::string();
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  const std::string reply = argc == 3 ? sluice::bench::render_reply(argv[2]) : std::string();
  if (reply.empty()) {
    std::fputs("usage: sluice_constant_server IPV4:PORT N,N,N,N,N\n", stderr);
    return 2;
  }
  sluice::bench::OpenedSocket opened = sluice::bench::listen_on(argv[1]);
  if (!opened.socket) {
    std::fprintf(stderr, "sluice_constant_server: %s\n", opened.error.c_str());
    return 1;
  }
  sluice::bench::ConstantServer server(std::move(opened.socket), reply);
  server.serve();
  return 1;
}
