#include "net/io_context.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <utility>

namespace sluice {

// One thread runs it at a time.
IoContext::IoContext() : asio_(std::make_shared<boost::asio::io_context>(1)) {
  // It goes on when there is nothing to do.
  asio_->get_executor().on_work_started();
}

void IoContext::post(std::function<void()> task) {
  boost::asio::post(*asio_, std::move(task));
}

struct IoTimer::State {
  State(IoContext& context, std::function<void()> timer_task)
      : timer(*context.asio()), task(std::move(timer_task)) {}

  boost::asio::steady_timer timer;
  const std::function<void()> task;
  bool is_set = false;
  std::uint64_t wait = 0;  // A wait that was cancelled may have ended before.
};

IoTimer::IoTimer(IoContext& context, std::function<void()> task)
    : state_(std::make_shared<State>(context, std::move(task))) {}

void IoTimer::set_at(Clock::time_point when) {
  state_->is_set = true;
  state_->timer.expires_at(when);
  state_->timer.async_wait([state = state_, wait = ++state_->wait](boost::system::error_code) {
    if (wait != state->wait) return;
    state->is_set = false;
    state->task();
  });
}

void IoTimer::cancel() {
  if (!std::exchange(state_->is_set, false)) return;
  ++state_->wait;
  state_->timer.cancel();
}

bool IoTimer::is_set() const {
  return state_->is_set;
}

}  // namespace sluice
