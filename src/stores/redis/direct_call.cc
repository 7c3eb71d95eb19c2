#include "stores/redis/direct_call.h"

#include <exception>

#include "stores/redis/lane.h"
#include "stores/redis/server_error.h"

namespace sluice::redis {

bool DirectCall::load(const Inquiry& inquiry) {
  script_.clear();
  now_ = inquiry.now;
  state_.store(State::kAwaited, std::memory_order_relaxed);
  (void)answered_.try_acquire();  // Where nobody had to wait for the answer before.
  why_.clear();
  if (inquiry.together) return script_.add_together(inquiry.requests, inquiry.decisions[0]);
  if (inquiry.requests.size() > ScriptCall::kMaxRequests) return false;
  for (std::size_t i = 0; i < inquiry.requests.size(); ++i) {
    if (!script_.add(inquiry.requests[i], inquiry.decisions[i])) return false;
  }
  return true;
}

void DirectCall::write(std::string& output) {
  script_.write(now_, lane_.number_call(), output);
}

// Whoever changes the state first, asker or connection, decides whether the asker's memory is
// touched. False where it is not: the asker has gone.
bool DirectCall::begin_answer() {
  State awaited = State::kAwaited;
  if (state_.compare_exchange_strong(awaited, State::kAnswering, std::memory_order_acquire)) {
    return true;
  }
  script_.abandon_all();
  return false;
}

void DirectCall::end_answer(bool awaited) {
  if (awaited) {
    answered_.release();
  } else {
    delete this;
  }
}

// Also where nobody waits for it any more, it is to be the reply to this call.
void DirectCall::on_reply(std::string_view reply) {
  const bool awaited = begin_answer();
  try {
    take(reply);
  } catch (const std::exception&) {
    outcome_ = Outcome::kLost;
    why_ = kNoMemory;
  }
  end_answer(awaited);
}

void DirectCall::take(std::string_view reply) {
  if (reply.front() == '-') {
    // Only what a server says before a script begins is known to have changed nothing. Who may not
    // do it alone may not do it at all.
    using Kind = ServerError::Kind;
    const std::string_view text = error_text(reply);
    const Kind kind = read_server_error(text).kind;
    const bool refused = kind != Kind::kOther && (kind != Kind::kNoPerm || script_.size() > 1);
    outcome_ = refused ? Outcome::kRefused : Outcome::kLost;
    why_ = lane_.name() + ": " + std::string(text);
  } else {
    if (!script_.read(reply)) lane_.lose_track();
    outcome_ = Outcome::kRead;
    take_faults();
  }
}

void DirectCall::on_lost(Loss loss, std::string_view why) {
  const bool awaited = begin_answer();
  outcome_ = loss == Loss::kUnsent ? Outcome::kRefused : Outcome::kLost;
  keep_reason(why_, why);
  end_answer(awaited);
}

// The first is told.
void DirectCall::take_faults() {
  for (std::size_t i = 0; i < script_.size(); ++i) {
    const std::string_view fault = script_.fault(i);
    if (fault.empty()) continue;
    if (why_.empty()) why_ = lane_.name() + ": " + std::string(fault);
    if (read_server_error(fault).kind == ServerError::Kind::kReadOnly) {
      return lane_.leave_replica(fault);
    }
  }
}

bool DirectCall::await(std::chrono::steady_clock::time_point deadline) {
  return answered_.try_acquire_until(deadline);
}

bool DirectCall::leave() {
  State awaited = State::kAwaited;
  if (state_.compare_exchange_strong(awaited, State::kLeft, std::memory_order_release)) return true;
  answered_.acquire();
  return false;
}

}  // namespace sluice::redis
