#include "stores/redis/direct_call.h"

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

// Whoever changes the state first, asker or connection, decides whether the asker's memory is
// touched.
bool DirectCall::begin_answer() {
  State awaited = State::kAwaited;
  if (state_.compare_exchange_strong(awaited, State::kAnswering, std::memory_order_acquire)) {
    return true;
  }
  delete this;
  return false;
}

void DirectCall::on_reply(std::string_view reply) {
  if (!begin_answer()) return;
  if (reply.front() == '-') {
    // Only what a server says before a script begins is known to have changed nothing.
    const std::string_view text = error_text(reply);
    const bool refused = read_server_error(text).kind != ServerError::Kind::kOther;
    outcome_ = refused ? Outcome::kRefused : Outcome::kLost;
    why_ = server_ + ": " + std::string(text);
  } else {
    script_.read(reply);
    outcome_ = Outcome::kRead;
  }
  answered_.release();
}

void DirectCall::on_lost(Loss loss, std::string_view why) {
  if (!begin_answer()) return;
  outcome_ = loss == Loss::kUnsent ? Outcome::kRefused : Outcome::kLost;
  why_ = why;
  answered_.release();
}

std::string DirectCall::first_fault() const {
  for (std::size_t i = 0; i < script_.size(); ++i) {
    if (const std::string_view fault = script_.fault(i); !fault.empty()) {
      return server_ + ": " + std::string(fault);
    }
  }
  return {};
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
