#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <exception>
#include <utility>

#include "net/pipeline_state.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// A reply wakes its borrower only. The loop is told, once, when the server closes the connection,
/// so that an idle one is renewed before somebody needs it.
constexpr std::uint32_t kLentEvents = EPOLLRDHUP | EPOLLONESHOT;

/// Waits until `fd` can be read. False where it cannot by the deadline.
bool await_readable(int fd, steady_clock::time_point deadline) {
  pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
  while (true) {
    const nanoseconds left = std::max(nanoseconds(0), nanoseconds(deadline - steady_clock::now()));
    const auto whole = std::chrono::duration_cast<seconds>(left);
    const timespec wait{.tv_sec = whole.count(), .tv_nsec = (left - whole).count()};
    const int ready = ::ppoll(&readable, 1, &wait, nullptr);
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

}  // namespace

thread_local const Pipeline::State* Pipeline::State::answering_here_ = nullptr;

Pipeline::Here Pipeline::State::run_here(Exchange& exchange, Clock::time_point deadline) {
  if (!ownership_.borrow()) return Here::kBusy;
  Here here = Here::kBusy;
  try {
    if (stream_->is_quiet()) here = carry_out(exchange, deadline);
  } catch (const std::exception& error) {
    parting_ = Fault{.why = given_up(error)};
    // Who has not asked yet will not be told.
    here = talk_->in_flight() == 0 ? Here::kBusy : Here::kHandedOver;
  }
  // The loop's thread goes on where this one stops, as if it had done all that itself.
  const bool odd = here != Here::kDone || parting_.has_value() || !talk_->is_idle();
  const bool kicked = std::exchange(kicked_, false);
  ownership_.give_back(odd || kicked, [this] { loop_.post(shared_from_this()); });
  return here;
}

Pipeline::Here Pipeline::State::carry_out(Exchange& exchange, Clock::time_point deadline) {
  const Clock::time_point now = Clock::now();
  watch(kLentEvents);
  talk_->ask(exchange, now);
  deadline = std::min<Clock::time_point>(deadline, now + options_.silence_timeout);
  talk_->sent(stream_->send(talk_->unsent()).bytes);
  while (talk_->unsent().empty() && await_readable(stream_->fd(), deadline)) {
    do {
      const Transfer transfer = stream_->receive(talk_->room());
      if (transfer.status == Transfer::Status::kMustRead) break;
      if (transfer.status != Transfer::Status::kMoved) return Here::kHandedOver;
      talk_->received(transfer.bytes);
      if (hear()) return Here::kDone;
      if (!talk_->fault().empty()) return Here::kHandedOver;
    } while (stream_->holds_more());
  }
  return Here::kHandedOver;
}

/// Hands over the reply, if it is complete.
bool Pipeline::State::hear() {
  const std::optional<std::string_view> reply = talk_->next_reply();
  Exchange* const exchange = reply ? talk_->answered() : nullptr;
  if (exchange == nullptr) return false;
  const State* const before = std::exchange(answering_here_, this);
  exchange->on_reply(*reply);
  answering_here_ = before;
  talk_->drop_reply();
  return true;
}

}  // namespace sluice
