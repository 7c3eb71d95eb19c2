// Asks a server for decisions at a steady rate, over connections that last as long as the server
// keeps them: restart_caller resp|http PORT CONNECTIONS PER_SECOND LIMIT KEYS
//
// It opens a closed connection again. If a connection ends before the first byte of a reply, it
// sends the request once more, over a new connection. Everything else is a failure. It runs until
// its standard input ends, and then prints the results as JSON, with the units that were allowed
// for each of the keys, "k0", "k1", ...
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "servers/resp_client.h"
#include "servers/socket.h"

namespace {

namespace servers = sluice::servers;

using Clock = std::chrono::steady_clock;

struct Job {
  bool is_http = false;
  std::uint16_t port = 0;
  std::size_t connections = 0;
  double per_second = 0;
  std::string limit;
  std::size_t keys = 0;
};

struct Outcome {
  std::uint64_t opened = 0;      // Connections.
  std::uint64_t sent_again = 0;  // Requests of whose reply no byte had come.
  std::uint64_t failed = 0;
  std::vector<std::uint64_t> allowed;
};

std::string request(const Job& job, const std::string& key) {
  if (job.is_http) {
    const std::string body = R"({"limit":")" + job.limit + R"(","key":")" + key + R"("})";
    return "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Content-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  return servers::encode_command({"SLUICE.CHECK", job.limit, key});
}

// Whether the decision is allowed; nothing if the reply is incomplete or not a decision.
std::optional<bool> decision_in_resp(std::string_view reply) {
  if (!reply.starts_with("*") || !reply.ends_with("\r\n")) return std::nullopt;
  const auto lines = std::ranges::count(reply, '\n');
  const bool is_whole = lines == std::atoi(reply.data() + 1) + 1;
  if (!is_whole) return std::nullopt;
  return reply.substr(reply.find('\n') + 1).starts_with(":1\r");
}

std::optional<bool> decision_in_http(std::string_view reply) {
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  const std::size_t end = reply.find("\r\n\r\n");
  const std::size_t length = reply.find(kLength);
  if (end == std::string_view::npos || length == std::string_view::npos) return std::nullopt;
  const std::string_view body = reply.substr(end + 4);
  const bool is_whole =
      body.size() == std::strtoul(reply.data() + length + kLength.size(), nullptr, 10);
  if (!is_whole) return std::nullopt;
  if (body.starts_with(R"({"allowed":true)")) return true;
  if (body.starts_with(R"({"allowed":false)")) return false;
  return std::nullopt;
}

enum class Reply : std::uint8_t { kAllowed, kDenied, kNone, kBroken };

Reply ask(sluice::Peer& peer, const std::string& text, bool is_http) {
  peer.send(text);
  std::string reply;
  std::array<char, 4096> piece{};
  while (true) {
    const ssize_t bytes = ::recv(peer.fd(), piece.data(), piece.size(), 0);
    const bool is_timeout = bytes < 0 && errno == EAGAIN;
    if (bytes <= 0) return reply.empty() && !is_timeout ? Reply::kNone : Reply::kBroken;
    reply.append(piece.data(), static_cast<std::size_t>(bytes));
    const auto decision = is_http ? decision_in_http(reply) : decision_in_resp(reply);
    if (decision) return *decision ? Reply::kAllowed : Reply::kDenied;
  }
}

// Sends a request, and once more if no byte of its reply comes.
void decide(std::optional<sluice::Peer>& peer, const Job& job, std::size_t key, Outcome& outcome) {
  const std::string text = request(job, "k" + std::to_string(key));
  Reply reply = Reply::kNone;
  // A connection that the server closed between two requests costs no attempt.
  char byte = 0;
  if (peer && ::recv(peer->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) peer.reset();
  try {
    for (int attempt = 0; attempt < 2 && reply == Reply::kNone; ++attempt) {
      if (attempt == 1) ++outcome.sent_again;
      if (attempt == 1 || !peer) {
        ++outcome.opened;
        peer.emplace(servers::peer_at(job.port));
      }
      reply = ask(*peer, text, job.is_http);
    }
  } catch (const std::system_error&) {
    reply = Reply::kBroken;  // It cannot connect.
  }
  if (reply == Reply::kNone || reply == Reply::kBroken) {
    ++outcome.failed;
    peer.reset();
    return;
  }
  if (reply == Reply::kAllowed) ++outcome.allowed[key];
}

Outcome call(const Job& job, std::size_t index, const std::atomic<bool>& is_over) {
  Outcome outcome{.allowed = std::vector<std::uint64_t>(job.keys)};
  std::optional<sluice::Peer> peer;
  const auto each = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(static_cast<double>(job.connections) / job.per_second));
  auto next = Clock::now() + each * index / job.connections;
  for (std::size_t key = index; !is_over; ++key) {
    std::this_thread::sleep_until(next);
    next += each;
    decide(peer, job, key % job.keys, outcome);
  }
  return outcome;
}

void add(Outcome& to, const Outcome& from) {
  to.opened += from.opened;
  to.sent_again += from.sent_again;
  to.failed += from.failed;
  for (std::size_t i = 0; i < to.allowed.size(); ++i) to.allowed[i] += from.allowed[i];
}

void print(const Outcome& outcome) {
  std::cout << R"({"opened": )" << outcome.opened << R"(, "sent_again": )" << outcome.sent_again
            << R"(, "failed": )" << outcome.failed << R"(, "allowed": {)";
  for (std::size_t i = 0; i < outcome.allowed.size(); ++i) {
    std::cout << (i == 0 ? "" : ", ") << "\"k" << i << "\": " << outcome.allowed[i];
  }
  std::cout << "}}\n";
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) return 2;
  const Job job{.is_http = std::string_view(arguments[1]) == "http",
                .port = static_cast<std::uint16_t>(std::stoul(arguments[2])),
                .connections = std::stoul(arguments[3]),
                .per_second = std::stod(arguments[4]),
                .limit = arguments[5],
                .keys = std::stoul(arguments[6])};
  std::atomic<bool> is_over = false;
  std::mutex mutex;
  Outcome all{.allowed = std::vector<std::uint64_t>(job.keys)};
  std::vector<std::thread> callers;
  for (std::size_t i = 0; i < job.connections; ++i) {
    callers.emplace_back([&, i] {
      const Outcome outcome = call(job, i, is_over);
      const std::lock_guard lock(mutex);
      add(all, outcome);
    });
  }
  while (std::cin.get() != EOF) {
  }
  is_over = true;
  for (std::thread& caller : callers) caller.join();
  print(all);
  return 0;
}
