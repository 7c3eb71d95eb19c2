#include "faults/fake_redis.h"

#include <poll.h>
#include <sys/socket.h>

#include <stdexcept>
#include <utility>

#include "servers/resp_client.h"

namespace sluice::faults {

FakeRedis::FakeRedis(Script script)
    : script_(std::move(script)), thread_([this] { accept_all(); }) {}

FakeRedis::~FakeRedis() {
  stopping_.store(true);
  ::shutdown(listener_.get(), SHUT_RDWR);  // Wakes the thread.
}

void FakeRedis::accept_all() {
  pollfd readable{.fd = listener_.get(), .events = POLLIN, .revents = 0};
  while (!stopping_.load()) {
    ::poll(&readable, 1, -1);
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;
    connections_.emplace_back([this, own = std::move(socket)]() mutable { serve(std::move(own)); });
  }
}

void FakeRedis::serve(UniqueFd socket) {
  // A command is an array of texts, which a client can read as well as a reply.
  servers::RespClient client(servers::patient_peer(std::move(socket)));
  try {
    while (true) {
      Words words;
      for (servers::Reply& word : client.read().elements) words.push_back(std::move(word.text));
      client.send(answer(words));
    }
  } catch (const std::runtime_error&) {
    // The connection has ended.
  }
}

std::string FakeRedis::answer(const Words& words) {
  if (words[0] == "EVALSHA" && words[2] == "0") return "$0\r\n\r\n";  // Of the handshake.
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
