#include "stores/remote/server_health.h"

#include <algorithm>
#include <utility>

#include "core/limit_syntax.h"

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kMostForHandshake{5'000};

}  // namespace

ServerHealth::ServerHealth(std::string server, std::chrono::nanoseconds deadline,
                           StoreMonitor* monitor)
    : server_(std::move(server)),
      deadline_(deadline),
      late_(server_ + " did not answer within " + format_duration(deadline.count())),
      silent_(server_ + " has not answered for a while"),
      monitor_(monitor) {
  if (monitor_ != nullptr) monitor_->add(state_);
}

ServerHealth::~ServerHealth() {
  if (monitor_ != nullptr) monitor_->forget(state_);
}

PipelineOptions ServerHealth::pipeline_options(const Endpoint& endpoint,
                                               std::size_t max_in_flight) const {
  PipelineOptions options{.endpoint = endpoint, .max_in_flight = max_in_flight};
  const auto silence = std::chrono::ceil<std::chrono::milliseconds>(2 * deadline_);
  options.silence_timeout = std::max(options.silence_timeout, silence);
  options.handshake_timeout = std::clamp(silence, options.handshake_timeout, kMostForHandshake);
  return options;
}

void ServerHealth::on_up() {
  state_.now = ServerState::kUp;
  given_up_ = false;
  if (monitor_ != nullptr) monitor_->update_state();
}

void ServerHealth::on_down(std::string_view why) {
  const bool was_broken = is_broken();
  const bool is_waited_for = state_.now == ServerState::kUp && !given_up_;
  state_.now = is_waited_for ? ServerState::kLost : ServerState::kBroken;
  state_.down_why = why;
  if (is_waited_for || monitor_ == nullptr) return;
  if (!was_broken) monitor_->add(state_);
  monitor_->update_state();
}

std::string_view ServerHealth::why_not(const RequestPipeline& pipeline,
                                       Clock::time_point now) const {
  if (is_broken()) return state_.down_why;
  const auto oldest = pipeline.waiting_since();
  // With unread bytes it is this process that is late, and not the server.
  if (oldest && is_silent(*oldest, now) && !pipeline.has_unread()) return silent_;
  return {};
}

}  // namespace sluice
