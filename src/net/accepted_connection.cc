#include "net/accepted_connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <cassert>
#include <exception>
#include <utility>

#include "net/endpoint.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

/// When the output has this many bytes, it is sent before more of the input is answered.
constexpr std::size_t kSendBytes = 64 * 1024;
/// A connection that has answered for this long, and can answer more, first lets the others of its
/// thread go on.
constexpr std::chrono::microseconds kTurn{500};
/// The most that is read and ignored when the server stops.
constexpr std::size_t kMaxIgnoredBytes = 1024 * 1024;

/// In how many parts the connections of a thread are looked at, one after the other.
constexpr int kSweepParts = 10;

}  // namespace

AcceptedConnection::AcceptedConnection(IoSocket socket, ConnectionGroup& group,
                                       std::shared_ptr<const Service> service,
                                       OpenConnections& counted)
    : group_(group), service_(std::move(service)), counted_(counted), socket_(std::move(socket)) {}

/// Runs `step` unless the connection is closed.
template <class Step>
void AcceptedConnection::run(Step step) {
  if (!socket_.is_open()) return;
  try {
    step();
  } catch (const std::exception&) {
    close();
  }
}

void AcceptedConnection::start() {
  run([&] {
    group_.members.insert(shared_from_this());
    if (!std::exchange(group_.is_sweeping, true)) sweep(group_);
    socket_.non_blocking(true);
    if (service_->tls != nullptr) {
      tls_.emplace(*service_->tls);
      deadline_ = SteadyTimer::clock_type::now() + group_.limits.handshake_timeout;
    } else {
      make_handler();
    }
    end_step_soon();
  });
}

void AcceptedConnection::make_handler() {
  handler_ = service_->make_handler({.thread = group_.thread,
                                     .wake = make_wake(),
                                     .peer = peer(),
                                     .peer_with_port = peer_with_port(),
                                     .is_loopback = !is_unix() && service_->address.is_local(),
                                     .certificate = tls_ ? tls_->subject() : std::string()});
  await_input(false, true);
}

/// As AcceptedStream::peer.
std::string AcceptedConnection::peer() const {
  return is_unix() ? "unix:" : numeric_address(socket_.remote_endpoint());
}

std::string AcceptedConnection::peer_with_port() const {
  if (is_unix()) return peer();
  const std::uint16_t port = tcp_endpoint(socket_.remote_endpoint()).port();
  return Endpoint{.host = peer(), .port = port}.text();
}

Wake AcceptedConnection::make_wake() {
  return [context = group_.context, weak = weak_from_this()] {
    asio::post(*context, [weak] {
      if (const auto self = weak.lock()) self->run([&] { self->on_wake(); });
    });
  };
}

void AcceptedConnection::on_read(const error_code& error, std::size_t bytes) {
  reading_ = false;
  peer_ended_ = error == asio::error::eof;
  if (error && !peer_ended_ && error != asio::error::operation_aborted) return close();
  if (phase_ == Phase::kLingering) {
    if (peer_ended_ || is_not_awaited()) return close();
  } else {
    received().commit(bytes);
    if (group_.stopping) last_bytes_ -= std::min(bytes, last_bytes_);
    no_more_input_ = no_more_input_ || peer_ended_;
    if (tls_ && phase_ == Phase::kOpen) open_received();
    answer();
  }
  end_step_soon();
}

/// Goes on with TLS as far as the received bytes allow: the handshake, then what they encrypt.
void AcceptedConnection::open_received() {
  if (handler_ == nullptr) {
    const bool is_done = tls_->shake_hands();
    if (tls_->has_failed()) {
      service_->on_tls_failure(peer(), tls_->failure());
      phase_ = Phase::kClosing;
    }
    if (!is_done) return;
    make_handler();
  }
  if (!awaits_wake_) fill_input();
}

/// Decrypts what has been received, as far as there is room. Returns whether that gave any input.
///
/// After a wrong record nothing can be encrypted any more. So the replies that have been made are
/// sent first, the handler does not wait for a store meanwhile, and requests that have not been
/// answered yet are ignored: none is carried out whose reply could not be sent.
/// REQUIRES: !awaits_wake_.
bool AcceptedConnection::fill_input() {
  assert(!awaits_wake_);
  bool has_filled = false;
  if (!output_.empty() && tls_->has_unopened()) send_output();
  if (!socket_.is_open()) return false;
  while (!input_.is_full()) {
    const std::size_t bytes = tls_->open(input_.make_room());
    if (bytes == 0) break;
    input_.commit(bytes);
    has_filled = true;
    // What has come is answered first: for short requests the buffer need not grow further.
    if (input_.unread().size() >= kIdleBufferBytes) break;
  }
  no_more_input_ = no_more_input_ || tls_->has_ended();
  if (tls_->has_failed()) {
    phase_ = Phase::kClosing;
    input_.consume(input_.unread().size());
  }
  return has_filled && phase_ == Phase::kOpen;
}

void AcceptedConnection::on_written(const error_code& error, std::size_t bytes) {
  if (error && error != asio::error::operation_aborted) return close();
  sent_ += bytes;
  if (sent_ != sending_.size()) {
    write();
  } else {
    std::string().swap(sending_);
    sent_ = 0;
    output_deadline_ = SteadyTimer::time_point::max();
    send_output();  // So that a write is under way as long as it is held.
    if (!socket_.is_open()) return;
  }
  if (held_ && pending_bytes() <= max_pending_bytes() / 2) {
    held_ = false;
    await_input(has_part_, true);  // It reads only from now on.
    answer();
  }
  end_step_soon();
}

void AcceptedConnection::on_wake() {
  if (!std::exchange(awaits_wake_, false)) return;
  answer();
  end_step_soon();
}

/// Lets the handler answer the requests in input_, as far as it can now and in this turn.
void AcceptedConnection::answer() {
  if (handler_ == nullptr || awaits_wake_ || held_ || phase_ != Phase::kOpen) return;
  using Next = StreamHandler::Next;
  const auto turn_end = SteadyTimer::clock_type::now() + kTurn;
  bool more = true;
  bool has_written = std::exchange(wrote_, false);
  was_cut_ = false;
  StreamHandler::Progress progress;
  while (more && !held_) {
    const std::size_t before = output_.size();
    progress = handler_->on_data(input_.unread(), output_);
    has_written = has_written || output_.size() != before;
    input_.consume(progress.consumed);
    awaits_wake_ = progress.next == Next::kLater;
    if (progress.next == Next::kClose) phase_ = Phase::kClosing;
    more = progress.next == Next::kMore;
    if (progress.next == Next::kNeedMore && input_.is_full()) return close();
    if (progress.next == Next::kNeedMore && tls_) {
      more = fill_input();
      progress.has_part = progress.has_part || tls_->has_part();
    }
    if (output_.size() >= kSendBytes) send_output();
    if (more && SteadyTimer::clock_type::now() >= turn_end) {
      awaits_wake_ = was_cut_ = true;
      wrote_ = has_written;
      go_on_after_others();
      break;
    }
  }
  const bool has_deadline = login_deadline_ != SteadyTimer::time_point::max();
  if (has_deadline && !handler_->awaits_login()) login_deadline_ = SteadyTimer::time_point::max();
  const bool has_answered_all =
      progress.next == Next::kNeedMore && !progress.has_part && input_.unread().empty();
  if (leaving_ && has_written && has_answered_all) phase_ = Phase::kClosing;
  await_input(progress.has_part, has_written);
}

/// Goes on in two tasks: what other peers have sent meanwhile is read and answered between them,
/// and sent before this connection's next turn. So other peers wait for one turn, and not for two.
void AcceptedConnection::go_on_after_others() {
  const auto next_turn = [this, self = shared_from_this()] {
    run([&] { end_steps(group_); });
    run([&] { on_wake(); });
  };
  asio::post(*group_.context, [this, next_turn] { asio::post(*group_.context, next_turn); });
}

/// Sets until when the peer must send the next request, or the rest of one. The time begins anew
/// when the first byte of a request has come, when the request is complete, and when output was
/// made; further bytes of a request do not prolong it.
void AcceptedConnection::await_input(bool has_part, bool has_written) {
  const bool had_part = std::exchange(has_part_, has_part);
  if (had_part == has_part && !has_written) return;
  const auto timeout = has_part ? service_->timeouts.request : service_->timeouts.idle;
  deadline_ = timeout == StreamTimeouts::kNever ? SteadyTimer::time_point::max()
                                                : SteadyTimer::clock_type::now() + timeout;
}

/// Sets the deadline for the peer to say who it is, if it owes that by now; answer() removes it as
/// soon as the peer has said so.
void AcceptedConnection::watch_login(SteadyTimer::time_point now) {
  if (handler_ == nullptr || service_->timeouts.login == StreamTimeouts::kNever) return;
  if (!handler_->awaits_login()) {
    login_deadline_ = SteadyTimer::time_point::max();  // A reload has made it a user.
  } else if (login_deadline_ == SteadyTimer::time_point::max()) {
    login_deadline_ = now + service_->timeouts.login;
  }
}

/// Ends the connection if the peer has not done in time what it was awaited to do.
void AcceptedConnection::end_if_overdue(SteadyTimer::time_point now) {
  if (output_deadline_ <= now) {
    if (phase_ != Phase::kLingering) service_->on_event(ConnectionEvent::kUnread);
    return close();
  }
  if (phase_ != Phase::kOpen) return;
  if (login_deadline_ <= now) {  // Whatever the peer has sent or not read instead.
    service_->on_event(ConnectionEvent::kNoLogin);
    return close();
  }
  if (deadline_ > now || awaits_wake_ || held_) return;
  if (handler_ == nullptr) return close();  // The TLS handshake goes on for too long.
  deadline_ = SteadyTimer::time_point::max();
  service_->on_event(has_part_ ? ConnectionEvent::kHalfRequest : ConnectionEvent::kIdle);
  if (has_part_) handler_->on_end(StreamHandler::EndReason::kLate, output_);
  phase_ = Phase::kClosing;
  end_step_soon();
}

/// Ends the connections whose deadlines have passed, and comes back in a while: one timer for all
/// connections of a thread, since setting one for each request would cost a tenth of it. To look at
/// 10,000 takes 2 to 5 ms, for which requests would wait: so it looks at a part of them each time.
void AcceptedConnection::sweep(ConnectionGroup& group) {
  const auto now = SteadyTimer::clock_type::now();
  auto& members = group.members;
  for (std::size_t i = group.next_part; i < members.bucket_count(); i += kSweepParts) {
    for (auto at = members.begin(i); at != members.end(i);) {
      AcceptedConnection* const connection = (at++)->get();  // It may leave the group now.
      connection->run([=] {
        connection->watch_login(now);
        connection->end_if_overdue(now);
      });
    }
  }
  group.next_part = (group.next_part + 1) % kSweepParts;
  group.is_sweeping = !group.members.empty();
  if (!group.is_sweeping) return;
  group.sweep.expires_after(std::chrono::nanoseconds(group.limits.sweep_interval) / kSweepParts);
  group.sweep.async_wait([&group](const error_code& error) {
    if (!error) sweep(group);
  });
}

void AcceptedConnection::end_step_soon() {
  // A closed connection lives on only for the tasks that were posted before it was closed.
  if (!socket_.is_open() || std::exchange(in_step_, true)) return;
  if (group_.in_step.empty()) {
    asio::post(socket_.get_executor(), [&group = group_] { end_steps(group); });
  }
  group_.in_step.push_back(this);
}

void AcceptedConnection::end_steps(ConnectionGroup& group) {
  for (AcceptedConnection* connection : group.in_step) {
    connection->run([=] { connection->send_output(); });
  }
  for (AcceptedConnection* connection : group.in_step) {
    connection->in_step_ = false;
    connection->run([=] { connection->go_on(); });
    connection->run([=] { connection->bound_memory(); });
  }
  group.in_step.clear();
}

/// Gives the output to the socket, unless a write is under way: on_written() does so then. What the
/// socket does not take now, write() sends later.
void AcceptedConnection::send_output() {
  if (tls_ && !tls_->seal(output_)) return close();
  std::string& next = to_send();
  if (sending_.empty()) {
    if (next.empty()) return;
    error_code ignored;  // The write() that follows reports it again.
    sent_ = socket_.write_some(asio::buffer(next), ignored);
    if (sent_ == next.size()) {
      sent_ = 0;
      return clear_output(next);
    }
    sending_ = std::exchange(next, {});
    write();
  }
  held_ = held_ || (phase_ == Phase::kOpen && pending_bytes() >= max_pending_bytes());
}

/// The bound of the pending output: less for a peer that has yet to say who it is, since such peers
/// can use all connections.
std::size_t AcceptedConnection::max_pending_bytes() const {
  const std::size_t most = group_.limits.max_pending_bytes;
  const bool must_log_in = service_->timeouts.login != StreamTimeouts::kNever;
  if (!must_log_in || handler_ == nullptr || !handler_->awaits_login()) return most;
  return std::min(most, ConnectionLimits::kMaxPendingBytesBeforeLogin);
}

/// Begins the next read, or ends the connection.
void AcceptedConnection::go_on() {
  // While the handler waits for a store, no more is read than the buffer of an idle connection has.
  const std::size_t most_kept = awaits_wake_ ? kIdleBufferBytes / 2 : kMaxInputBytes - 1;
  bool reads_on = phase_ == Phase::kOpen && !held_ && !no_more_input_ &&
                  input_.unread().size() <= most_kept && !(tls_ && tls_->has_unopened());
  if (group_.stopping && !reading_) {
    // While replies wait to be made or to be read, what has arrived is left to be read later.
    no_more_input_ = no_more_input_ || last_bytes_ == 0 || !more_has_come();
    reads_on = reads_on && !no_more_input_;
  }
  const bool is_last = phase_ == Phase::kClosing || (no_more_input_ && !awaits_wake_);
  if (is_last && pending_bytes() == 0 && phase_ != Phase::kLingering) linger();
  if ((reads_on || phase_ == Phase::kLingering) && !reading_) read();
}

/// Ends the connection if it has come to hold more than there is room for, unless it is in the
/// reserve of its address. The peer is told why, unless other output would have to be sent before:
/// what the handler holds is freed now, the buffer of the read under way when the connection
/// closes.
void AcceptedConnection::bound_memory() {
  const bool has_room = group_.memory.update(counted_bytes_, held_bytes());
  if (has_room || counted_.is_reserve || phase_ != Phase::kOpen) return;
  service_->on_event(ConnectionEvent::kNoMemory);
  const bool awaits_store = awaits_wake_ && !was_cut_;
  const bool owes_reply = awaits_store || pending_bytes() != 0;
  if (handler_ == nullptr || owes_reply) return close();
  handler_->on_end(StreamHandler::EndReason::kNoMemory, output_);
  handler_.reset();
  phase_ = Phase::kClosing;
  if (tls_) input_ = InputBuffer();  // Without TLS a read into it is under way.
  send_output();
  if (!socket_.is_open()) return;  // For lack of memory, TLS could not encrypt it.
  go_on();
  if (socket_.is_open()) group_.memory.update(counted_bytes_, held_bytes());
}

std::size_t AcceptedConnection::held_bytes() {
  std::size_t bytes = input_.capacity() + output_.capacity() + sending_.capacity();
  if (tls_) bytes += tls_->received().capacity() + tls_->to_send().size();
  if (handler_) bytes += handler_->held_bytes();
  return bytes;
}

void AcceptedConnection::read() {
  if (phase_ == Phase::kLingering) received() = InputBuffer();
  const std::span<char> room = received().make_room();
  reading_ = true;
  socket_.async_read_some(
      asio::buffer(room.data(), room.size()),
      [this](const error_code& error, std::size_t bytes) { run([&] { on_read(error, bytes); }); });
}

void AcceptedConnection::write() {
  output_deadline_ = SteadyTimer::clock_type::now() + group_.limits.stuck_timeout;
  socket_.async_write_some(asio::buffer(sending_) + sent_,
                           [this](const error_code& error, std::size_t bytes) {
                             run([&] { on_written(error, bytes); });
                           });
}

/// Everything has been sent. Closing a socket with unread input resets it, and a reset may overtake
/// the last reply: so this side ends first, and what still comes is read and ignored.
void AcceptedConnection::linger() {
  leaving_.reset();
  error_code ignored;
  if (tls_) {
    tls_->end();
    // The socket has taken all output before, and has room for these few bytes.
    socket_.write_some(asio::buffer(tls_->to_send()), ignored);
    tls_->to_send().clear();
  }
  if (peer_ended_ || is_not_awaited()) return close();
  phase_ = Phase::kLingering;
  socket_.shutdown(IoSocket::shutdown_send, ignored);
  output_deadline_ = SteadyTimer::clock_type::now() + group_.limits.linger_timeout;
}

void AcceptedConnection::leave(std::shared_ptr<void> left) {
  assert(!leaving_);
  if (phase_ != Phase::kLingering) leaving_ = std::move(left);
}

void AcceptedConnection::finish() {
  assert(group_.stopping);
  run([&] {
    if (is_not_awaited() && phase_ == Phase::kLingering) return close();
    // The read under way, and with it a write, is begun anew where it is still wanted.
    if (is_not_awaited() && reading_) socket_.cancel();
    end_step_soon();
  });
}

void AcceptedConnection::finish_begun() {
  assert(group_.stopping);
  run([&] {
    output_.clear();
    if (tls_) tls_->abandon();
    if (phase_ == Phase::kOpen) phase_ = Phase::kClosing;
    held_ = false;
    end_step_soon();
  });
}

void AcceptedConnection::close() {
  if (!socket_.is_open()) return;
  leaving_.reset();
  if (group_.stopping) ignore_input();
  // Counted before the peer can notice: a client that then connects instead must not be refused.
  counted_.count.fetch_sub(1);
  group_.memory.update(counted_bytes_, 0);
  const bool is_in_handshake = tls_ && handler_ == nullptr && phase_ == Phase::kOpen;
  if (is_in_handshake) service_->on_tls_failure({}, {});
  error_code ignored;
  socket_.close(ignored);
  // The operations that were under way end before this, which keeps the connection for them.
  asio::post(socket_.get_executor(), [self = shared_from_this()] {});
  group_.members.erase(shared_from_this());
  group_.end_if_empty();
}

/// Reads and ignores what has come: where a socket is closed with unread input, the system drops
/// the output that it has not delivered yet.
void AcceptedConnection::ignore_input() {
  std::array<char, kIdleBufferBytes> input;
  error_code error;
  for (std::size_t bytes = 0; !error && bytes < kMaxIgnoredBytes;) {
    bytes += socket_.read_some(asio::buffer(input), error);
  }
}

/// A server that stops does not wait for peers that are silent.
bool AcceptedConnection::is_not_awaited() const {
  return group_.stopping && !more_has_come();
}

bool AcceptedConnection::more_has_come() const {
  error_code error;
  return socket_.available(error) != 0 && !error;
}

}  // namespace sluice
