#include "faults/fake_redis.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string_view>

#include "servers/socket.h"

namespace sluice::faults {
namespace {

// How often the thread checks for a stop.
constexpr int kPollMs = 20;

// Removes a line "*3" or "$5" and returns its number; nothing if the line is incomplete.
std::optional<std::size_t> take_number(std::string_view& text) {
  const std::size_t end = text.find("\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  const std::size_t number = std::stoul(std::string(text.substr(1, end - 1)));
  text.remove_prefix(end + 2);
  return number;
}

// Removes and returns the first command; nothing if it is incomplete.
std::optional<FakeRedis::Words> take_command(std::string& received) {
  std::string_view text = received;
  const auto count = take_number(text);
  if (!count) return std::nullopt;
  FakeRedis::Words words;
  while (words.size() < *count) {
    const auto bytes = take_number(text);
    if (!bytes || text.size() < *bytes + 2) return std::nullopt;
    words.emplace_back(text.substr(0, *bytes));
    text.remove_prefix(*bytes + 2);
  }
  received.erase(0, received.size() - text.size());
  return words;
}

}  // namespace

FakeRedis::FakeRedis(Script script)
    : port_(servers::free_port()),
      script_(std::move(script)),
      listener_(servers::listen_on(port_)),
      thread_([this] { serve(); }) {}

FakeRedis::~FakeRedis() {
  stopping_.store(true);
  thread_.join();
}

void FakeRedis::serve() {
  while (!stopping_.load()) {
    std::vector<pollfd> watched{{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const auto& [fd, client] : clients_) {
      watched.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    }
    ::poll(watched.data(), watched.size(), kPollMs);
    if (watched.front().revents != 0) {
      UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const int fd = socket.get();
      if (socket) clients_[fd].socket = std::move(socket);
    }
    for (std::size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents != 0 && !serve(clients_[watched[i].fd])) {
        clients_.erase(watched[i].fd);
      }
    }
  }
}

bool FakeRedis::serve(Client& client) {
  std::array<char, 16'384> piece;
  const ssize_t got = ::recv(client.socket.get(), piece.data(), piece.size(), 0);
  if (got <= 0) return false;
  client.received.append(piece.data(), static_cast<std::size_t>(got));
  while (const auto words = take_command(client.received)) {
    const std::string reply = answer(*words);
    if (::send(client.socket.get(), reply.data(), reply.size(), MSG_NOSIGNAL) < 0) return false;
  }
  return true;
}

std::string FakeRedis::answer(const Words& words) {
  if (words[0] == "EVALSHA") calls_.fetch_add(1);
  if (auto reply = script_(words)) return *reply;
  if (words[0] == "PING") return "+PONG\r\n";
  if (words[0] == "SCRIPT") return "$40\r\n" + std::string(40, 'a') + "\r\n";
  if (words[0] == "CLUSTER") {
    return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:" + std::to_string(port_) +
           "\r\n";
  }
  return "+OK\r\n";
}

}  // namespace sluice::faults
