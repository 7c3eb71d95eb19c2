#include "net/connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <cassert>
#include <cstring>
#include <exception>
#include <utility>

namespace sluice {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

/// Output of so many bytes is sent before more of the same input is answered.
constexpr std::size_t kSendBytes = 64 * 1024;
/// The most that is read and ignored while a connection lingers.
constexpr std::size_t kMaxIgnoredBytes = 1024 * 1024;
constexpr std::size_t kFirstBufferBytes = 4 * 1024;
/// The most that an idle connection keeps for its input.
constexpr std::size_t kIdleBufferBytes = 16 * 1024;

}  // namespace

std::span<char> InputBuffer::make_room() {
  const std::string_view kept = unread();
  std::size_t capacity = capacity_;
  if (end_ == capacity_) {
    capacity = std::clamp(2 * capacity_, kFirstBufferBytes, kMaxInputBytes);
  } else if (kept.empty() && capacity_ > kIdleBufferBytes) {
    capacity = kFirstBufferBytes;
  }
  if (capacity != capacity_) {
    auto bytes = std::make_unique_for_overwrite<char[]>(capacity);
    std::copy(kept.begin(), kept.end(), bytes.get());
    bytes_ = std::move(bytes);
    capacity_ = capacity;
  } else if (begin_ != 0) {
    std::memmove(bytes_.get(), kept.data(), kept.size());
  }
  begin_ = 0;
  end_ = kept.size();
  return {bytes_.get() + end_, capacity_ - end_};
}

Connection::Connection(ServingSocket socket, ConnectionGroup& group)
    : group_(group), socket_(std::move(socket)), timer_(socket_.get_executor()) {}

/// Runs `step` unless the connection is closed.
template <class Step>
void Connection::run(Step step) {
  if (!socket_.is_open()) return;
  try {
    step();
  } catch (const std::exception&) {
    group_.output.clear();
    close();
  }
}

void Connection::start(const MakeHandler& make_handler, std::size_t thread) {
  run([&] {
    group_.members.insert(shared_from_this());
    socket_.non_blocking(true);
    handler_ = make_handler(thread, make_wake());
    read_soon();
  });
}

Wake Connection::make_wake() {
  return [context = group_.context, weak = weak_from_this()] {
    asio::post(*context, [weak] {
      if (const auto self = weak.lock()) self->run([&] { self->on_wake(); });
    });
  };
}

/// Asio tries each read at once. After a reply that is too early and fails, at the cost of a system
/// call a request; once the other connections have been served, the next request has often come.
void Connection::read_soon() {
  if (group_.readers.empty()) {
    asio::post(socket_.get_executor(), [&readers = group_.readers] {
      for (std::size_t i = 0; i < readers.size(); ++i) {
        Connection& connection = *readers[i];
        connection.run([&] { connection.read(); });
      }
      readers.clear();
    });
  }
  group_.readers.push_back(this);
  reading_ = true;
}

void Connection::read() {
  if (group_.stopping && !lingering_ && !more_has_come()) {
    return on_read(asio::error::operation_aborted, 0);
  }
  const std::span<char> room = input_.make_room();
  socket_.async_read_some(
      asio::buffer(room.data(), room.size()),
      [this](const error_code& error, std::size_t bytes) { run([&] { on_read(error, bytes); }); });
}

/// `error` is operation_aborted where the server stops and nothing more has come.
void Connection::on_read(const error_code& error, std::size_t bytes) {
  reading_ = false;
  peer_ended_ = error == asio::error::eof;
  if (error && !peer_ended_ && error != asio::error::operation_aborted) return close();
  if (lingering_) return ignore(bytes);
  input_.commit(bytes);
  if (group_.stopping) last_bytes_ -= std::min(bytes, last_bytes_);
  no_more_input_ = error || last_bytes_ == 0;
  if (!later_ && !held_ && !closing_) answer();
  go_on();
}

/// Lets the handler answer what has come, as far as it can now.
void Connection::answer() {
  using Next = StreamHandler::Next;
  bool more = true;
  while (more) {
    const StreamHandler::Progress progress = handler_->on_data(input_.unread(), group_.output);
    assert(progress.next != Next::kMore || progress.consumed != 0);
    input_.consume(progress.consumed);
    later_ = progress.next == Next::kLater;
    closing_ = progress.next == Next::kClose;
    more = progress.next == Next::kMore && !input_.unread().empty();
    if (more && group_.output.size() < kSendBytes) continue;
    send_output();
    held_ = !closing_ && pending_bytes() >= group_.limits.max_pending_bytes;
    if (held_) return;
    if (progress.next == Next::kNeedMore && input_.is_full()) return close();
  }
}

/// Sends the output of this step as far as the peer takes it now; the rest is pending.
void Connection::send_output() {
  std::string& output = group_.output;
  if (output.empty()) return;
  std::size_t sent = 0;
  if (pending_bytes() == 0) {
    error_code ignored;  // It comes again with the write that follows.
    sent = socket_.write_some(asio::buffer(output), ignored);
  }
  if (sent != output.size()) {
    waiting_.append(output, sent);
    if (!writing_) write();
  }
  output.clear();
}

void Connection::write() {
  if (sent_ == sending_.size()) {
    sending_ = std::exchange(waiting_, {});
    sent_ = 0;
  }
  writing_ = true;
  close_after(group_.limits.stuck_timeout);
  socket_.async_write_some(asio::buffer(sending_) + sent_,
                           [this](const error_code& error, std::size_t bytes) {
                             run([&] { on_written(error, bytes); });
                           });
}

void Connection::on_written(const error_code& error, std::size_t bytes) {
  writing_ = false;
  if (error == asio::error::operation_aborted) return write();  // finish() meant the read.
  if (error) return close();
  sent_ += bytes;
  if (pending_bytes() != 0) {
    write();
  } else {
    std::string().swap(sending_);
    sent_ = 0;
    timer_.expires_at(ServingTimer::time_point::max());
  }
  if (held_ && pending_bytes() <= group_.limits.max_pending_bytes / 2) {
    held_ = false;
    if (!later_) answer();
  }
  go_on();
}

void Connection::on_wake() {
  if (!std::exchange(later_, false)) return;
  if (!held_) answer();
  go_on();
}

/// After each step: reads on, or ends.
void Connection::go_on() {
  if (!socket_.is_open() || lingering_) return;
  const bool last = closing_ || (no_more_input_ && !held_ && !later_);
  if (last && pending_bytes() == 0) return linger();
  const bool wants_more = !held_ && !no_more_input_ && !closing_;
  if (wants_more && !reading_ && !input_.is_full()) read_soon();
}

/// Everything has been sent. Closing a socket with unread input resets it, and a reset may overtake
/// the last reply: so this side ends first, and what still comes is read and ignored.
void Connection::linger() {
  if (peer_ended_) return close();
  lingering_ = true;
  error_code ignored;
  socket_.shutdown(ServingSocket::shutdown_send, ignored);
  // A server that stops does not wait for peers that are silent.
  if (group_.stopping && !more_has_come()) return close();
  close_after(group_.limits.linger_timeout);
  if (!reading_) ignore(0);
}

void Connection::ignore(std::size_t bytes) {
  ignored_bytes_ += bytes;
  if (peer_ended_ || ignored_bytes_ >= kMaxIgnoredBytes) return close();
  input_ = {};
  read_soon();
}

void Connection::finish() {
  run([&] {
    if (lingering_) return;
    if (!reading_) {  // Enough has come that is not answered yet.
      no_more_input_ = true;
      go_on();
    } else if (!more_has_come()) {
      socket_.cancel();
    }
  });
}

void Connection::close() {
  if (!socket_.is_open()) return;
  // Before the peer can notice: a client that then connects in its place finds room.
  group_.open.fetch_sub(1);
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  // The operations that were under way end before this, which keeps the connection for them.
  asio::post(socket_.get_executor(), [self = shared_from_this()] {});
  group_.members.erase(shared_from_this());
  if (group_.stopping && group_.members.empty()) group_.work.reset();
}

void Connection::close_after(std::chrono::milliseconds timeout) {
  timer_.expires_after(timeout);
  timer_.async_wait([this](const error_code& error) {
    // The expiry may have been moved when this was about to run.
    if (!error && timer_.expiry() <= std::chrono::steady_clock::now()) close();
  });
}

bool Connection::more_has_come() const {
  error_code error;
  return socket_.available(error) != 0 && !error;
}

}  // namespace sluice
