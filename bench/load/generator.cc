#include "load/generator.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

namespace sluice::bench {
namespace {

constexpr int kEventsAtOnce = 64;
/// The timeout after which a silent server counts as failed.
constexpr int kTimeoutMs = 10'000;

std::int64_t read_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Generator::Generator(const LoadOptions& options)
    : options_(options), tape_(options), checker_(options) {}

std::string Generator::connect_all() {
  epoll_ = Socket(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_)
    return std::string("cannot create an epoll: ") + std::generic_category().message(errno);
  connections_.resize(options_.connections);
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    OpenedSocket opened = connect_to(options_.address);
    if (!opened.socket) return opened.error;
    Connection& connection = connections_[i];
    connection.socket = std::move(opened.socket);
    connection.buffer = std::make_unique<std::array<char, kBufferBytes>>();
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    if (epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, connection.socket.fd(), &event) != 0) {
      return std::string("cannot watch a connection: ") + std::generic_category().message(errno);
    }
  }
  return {};
}

RunResult Generator::run() {
  result_ = RunResult();
  started_requests_ = 0;
  begin_ns_ = now_ns_ = read_clock_ns();
  bool going = true;
  for (Connection& connection : connections_) going = going && start_pipeline(&connection);
  std::array<epoll_event, kEventsAtOnce> events;
  while (going && result_.requests < started_requests_) {
    const int ready = epoll_wait(epoll_.fd(), events.data(), kEventsAtOnce, kTimeoutMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      break_off(ready == 0 ? "no reply for 10 seconds"
                           : std::string("cannot wait for replies: ") +
                                 std::generic_category().message(errno));
      break;
    }
    for (int i = 0; going && i < ready; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      going = handle(&connections_[event.data.u64], event.events);
    }
  }
  result_.seconds = static_cast<double>(read_clock_ns() - begin_ns_) / 1e9;
  return std::move(result_);
}

bool Generator::handle(Connection* connection, std::uint32_t events) {
  if ((events & EPOLLOUT) != 0 && !send_rest(connection)) return false;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) return receive(connection);
  return true;
}

bool Generator::start_pipeline(Connection* connection) {
  std::uint64_t most = options_.pipeline;
  if (options_.requests != 0) {
    most = std::min(most, options_.requests - started_requests_);
  } else if (static_cast<double>(now_ns_ - begin_ns_) >= options_.seconds * 1e9) {
    most = 0;
  }
  if (most == 0) return true;
  const Tape::Slice slice = tape_.next(most);
  started_requests_ += slice.requests;
  connection->unsent = slice.bytes;
  connection->pipelined = connection->awaited = slice.requests;
  connection->sent_at_ns = now_ns_;
  return send_rest(connection);
}

bool Generator::send_rest(Connection* connection) {
  while (!connection->unsent.empty()) {
    const ssize_t sent = send(connection->socket.fd(), connection->unsent.data(),
                              connection->unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) {
      return break_off(std::string("cannot send: ") + std::generic_category().message(errno));
    }
    if (sent < 0) break;
    connection->unsent.remove_prefix(static_cast<std::size_t>(sent));
  }
  const bool watch = !connection->unsent.empty();
  if (watch == connection->watches_writes) return true;
  connection->watches_writes = watch;
  const auto index = static_cast<std::uint64_t>(connection - connections_.data());
  epoll_event event{.events = EPOLLIN, .data = {.u64 = index}};
  if (watch) event.events |= EPOLLOUT;
  return epoll_ctl(epoll_.fd(), EPOLL_CTL_MOD, connection->socket.fd(), &event) == 0 ||
         break_off(std::string("cannot watch a connection: ") +
                   std::generic_category().message(errno));
}

bool Generator::receive(Connection* connection) {
  char* const begin = connection->buffer->data();
  const ssize_t got = recv(connection->socket.fd(), begin + connection->held,
                           connection->buffer->size() - connection->held, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got < 0)
    return break_off(std::string("cannot receive: ") + std::generic_category().message(errno));
  if (got == 0) return break_off("the server closed a connection");
  return take_replies(connection, connection->held + static_cast<std::size_t>(got));
}

bool Generator::take_replies(Connection* connection, std::size_t bytes) {
  char* const begin = connection->buffer->data();
  const ReplyChecker::Progress progress = checker_.check({begin, bytes});
  const std::size_t left = bytes - progress.bytes;
  if (progress.error != nullptr) {
    std::string shown(begin + progress.bytes, std::min<std::size_t>(left, 80));
    std::replace_if(
        shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, ' ');
    return break_off(std::string(progress.error) + ": " + shown);
  }
  if (progress.replies > connection->awaited ||
      (left > 0 && progress.replies == connection->awaited)) {
    return break_off("more replies than requests");
  }
  if (left > 0) std::memmove(begin, begin + progress.bytes, left);
  connection->held = left;
  connection->awaited -= progress.replies;
  result_.requests += progress.replies;
  return connection->awaited > 0 || finish_pipeline(connection);
}

bool Generator::finish_pipeline(Connection* connection) {
  now_ns_ = read_clock_ns();
  const auto latency_ns = static_cast<std::uint64_t>(now_ns_ - connection->sent_at_ns);
  result_.latency.add(latency_ns, connection->pipelined);
  return start_pipeline(connection);
}

bool Generator::break_off(std::string sentence) {
  result_.error = std::move(sentence);
  return false;
}

}  // namespace sluice::bench
