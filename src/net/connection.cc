#include "net/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

namespace sluice {
namespace {

// The C library's recv() and send() are points where a thread can be cancelled, for which they pay
// twice a call in a program of several threads. Ours are never cancelled.
ssize_t receive_now(int fd, char* to, std::size_t bytes) {
  return ::syscall(SYS_recvfrom, fd, to, bytes, 0, nullptr, nullptr);
}
ssize_t send_now(int fd, const char* from, std::size_t bytes) {
  return ::syscall(SYS_sendto, fd, from, bytes, MSG_NOSIGNAL, nullptr, 0);
}

/// Output of so many bytes is sent before more of the same read is answered.
constexpr std::size_t kSendBytes = 64 * 1024;
/// The most thrown away while a peer that was told to go still talks.
constexpr std::size_t kMaxDiscardBytes = 1024 * 1024;
/// A buffer that has grown beyond this is given back once it is empty.
constexpr std::size_t kIdleBytes = 4 * 1024;

bool must_wait(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/// The bytes the peer took, 0 where it takes none now, -1 where it is gone.
ssize_t send_some(int fd, std::string_view bytes) {
  const ssize_t sent = send_now(fd, bytes.data(), bytes.size());
  if (sent < 0 && must_wait(errno)) return 0;
  return sent;
}

void empty_out(std::string& buffer) {
  if (buffer.capacity() > kIdleBytes) {
    std::string().swap(buffer);
  } else {
    buffer.clear();
  }
}

/// Whether the connection goes on. Where memory runs out, most likely, that costs this peer its
/// connection, and nobody else theirs.
template <class Step>
bool goes_on(Step step) {
  try {
    return step();
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

void ConnectionWaker::wake() noexcept {
  const std::lock_guard lock(mutex_);
  if (loop_ != nullptr) loop_->post(shared_from_this());
}

void ConnectionWaker::run() {
  if (connection_ != nullptr) connection_->on_wake();
}

void ConnectionWaker::detach() {
  const std::lock_guard lock(mutex_);
  loop_ = nullptr;
  connection_ = nullptr;
}

Connection::Connection(ConnectionParts parts, ConnectionContext& context)
    : socket_(std::move(parts.socket)),
      handler_(std::move(parts.handler)),
      waker_(std::move(parts.waker)),
      context_(context),
      watched_(EPOLLIN) {
  waker_->attach(*this);
}

Connection::~Connection() {
  waker_->detach();
}

bool Connection::start() {
  return context_.loop.add(socket_.get(), watched_, *this);
}

void Connection::on_events(std::uint32_t events) {
  if (!goes_on([&] { return serve(events); })) context_.drop(*this);
}

void Connection::on_wake() {
  if (!std::exchange(later_, false)) return;
  if (held_) return;  // Until the peer has read: then resume() goes on.
  if (!goes_on([&] { return go_on(); })) context_.drop(*this);
}

bool Connection::serve(std::uint32_t events) {
  constexpr std::uint32_t kBroken = EPOLLHUP | EPOLLERR;
  if (discarding_) return discard();
  if (pending_bytes() != 0 && (events & (EPOLLOUT | kBroken)) != 0) {
    if (!send_pending() || !resume()) return false;
  }
  // Nobody is left to be answered. (A peer that has only ended its side is not broken.)
  if (later_ && (events & kBroken) != 0) return false;
  if ((watched_ & EPOLLIN) != 0 && (events & (EPOLLIN | kBroken)) != 0) {
    if (discarding_) return discard();
    return later_ ? keep() : receive();
  }
  return true;
}

bool Connection::receive() {
  char* const buffer = context_.input.data();
  const std::size_t kept = input_.size();
  if (kept != 0) std::memcpy(buffer, input_.data(), kept);
  const ssize_t got = receive_now(socket_.get(), buffer + kept, kReadBytes);
  if (got < 0) return must_wait(errno);
  if (got == 0) {
    peer_ended_ = true;
    no_more_input_ = true;
    return settle();
  }
  return process({buffer, kept + static_cast<std::size_t>(got)});
}

/// Keeps what comes until the handler is called again.
bool Connection::keep() {
  const std::size_t most = std::min(kReadBytes, room());
  if (most == 0) return true;
  const ssize_t got = receive_now(socket_.get(), context_.input.data(), most);
  if (got < 0) return must_wait(errno);
  if (got == 0) {
    peer_ended_ = true;
    no_more_input_ = true;
  } else {
    input_.append(context_.input.data(), static_cast<std::size_t>(got));
  }
  return settle();
}

/// Calls the handler with what was kept.
bool Connection::go_on() {
  std::memcpy(context_.input.data(), input_.data(), input_.size());
  return process({context_.input.data(), input_.size()});
}

bool Connection::process(std::string_view input) {
  context_.output.clear();
  if (!answer(input) || !send_output()) return false;
  if (!closing_ && pending_bytes() >= context_.limits.max_pending_bytes) held_ = true;
  if (!input.empty()) {
    input_.assign(input);
  } else if (!input_.empty()) {
    empty_out(input_);
  }
  return settle();
}

/// Answers `input` and leaves in it what was not consumed.
bool Connection::answer(std::string_view& input) {
  held_ = false;
  while (true) {
    const StreamHandler::Progress progress = handler_->on_data(input, context_.output);
    input.remove_prefix(std::min(progress.consumed, input.size()));
    switch (progress.next) {
      case StreamHandler::Next::kClose:
        closing_ = true;
        input = {};
        return true;
      case StreamHandler::Next::kLater:
        later_ = true;
        return true;
      case StreamHandler::Next::kNeedMore:
        return input.size() < kMaxInputBytes;
      case StreamHandler::Next::kMore:
        if (progress.consumed == 0) return false;  // It would never end.
        break;
    }
    if (input.empty()) return true;
    if (context_.output.size() < kSendBytes) continue;
    if (!send_output()) return false;
    if (pending_bytes() >= context_.limits.max_pending_bytes) {
      held_ = true;
      return true;
    }
  }
}

/// After output has gone: goes on with the input that was held back for it.
bool Connection::resume() {
  if (!held_ || pending_bytes() > context_.limits.max_pending_bytes / 2) return settle();
  held_ = false;
  return later_ ? settle() : go_on();
}

bool Connection::send_output() {
  std::string& output = context_.output;
  if (output.empty()) return true;
  std::size_t sent = 0;
  if (pending_bytes() == 0) {
    const ssize_t taken = send_some(socket_.get(), output);
    if (taken < 0) return false;
    sent = static_cast<std::size_t>(taken);
    if (sent < output.size()) {
      waiting_since_ = EventLoop::Clock::now();
      context_.watch();
    }
  }
  pending_.append(output, sent);
  output.clear();
  return true;
}

bool Connection::send_pending() {
  const ssize_t sent = send_some(socket_.get(), std::string_view(pending_).substr(pending_sent_));
  if (sent < 0) return false;
  if (sent != 0) waiting_since_ = EventLoop::Clock::now();
  pending_sent_ += static_cast<std::size_t>(sent);
  if (pending_bytes() == 0) {
    empty_out(pending_);
    pending_sent_ = 0;
  } else if (pending_sent_ > pending_.size() / 2) {
    // What has gone is at least as long as what moves: each byte moves once on average.
    pending_.erase(0, std::exchange(pending_sent_, 0));
  }
  return true;
}

bool Connection::discard() {
  const ssize_t got = receive_now(socket_.get(), context_.input.data(), kReadBytes);
  if (got < 0) return must_wait(errno);
  discarded_bytes_ += static_cast<std::size_t>(got);
  return got != 0 && discarded_bytes_ < kMaxDiscardBytes;
}

/// Decides what to wait for next.
bool Connection::settle() {
  const bool last = closing_ || (no_more_input_ && !held_ && !later_);
  if (last && pending_bytes() == 0) return end();
  watch_events();
  return true;
}

/// Everything has been sent.
bool Connection::end() {
  if (peer_ended_) return false;
  // Closing a socket with unread input resets it, and a reset may overtake the last answer. So only
  // our side ends, and what still comes is read and forgotten.
  ::shutdown(socket_.get(), SHUT_WR);
  discarding_ = true;
  // A server that stops does not wait for peers that are silent.
  if (context_.stopping && (!discard() || discarded_bytes_ == 0)) return false;
  waiting_since_ = EventLoop::Clock::now();
  context_.watch();
  watch_events();
  return true;
}

void Connection::watch_events() {
  std::uint32_t wanted = 0;
  const bool full = held_ || (later_ && room() == 0);
  if (discarding_ || !(full || no_more_input_ || closing_)) wanted |= EPOLLIN;
  if (pending_bytes() != 0) wanted |= EPOLLOUT;
  if (wanted == watched_) return;
  watched_ = wanted;
  context_.loop.modify(socket_.get(), wanted, *this);
}

bool Connection::finish_reading() {
  return goes_on([&] { return finish(); });
}

bool Connection::finish() {
  if (discarding_) return true;
  const bool reads = !held_ && !no_more_input_ && !closing_;
  if (reads && !(later_ ? keep() : receive())) return false;
  // What was received may have been the last of it.
  if (discarding_) return true;
  no_more_input_ = true;
  return settle();
}

bool Connection::expired(EventLoop::Clock::time_point now) const {
  if (discarding_) return now - waiting_since_ >= context_.limits.linger_timeout;
  return pending_bytes() != 0 && now - waiting_since_ >= context_.limits.stuck_timeout;
}

}  // namespace sluice
