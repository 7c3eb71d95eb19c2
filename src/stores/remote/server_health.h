#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "core/limit_syntax.h"
#include "net/request_pipeline.h"
#include "stores/remote/store_monitor.h"

namespace sluice {

/// A circuit breaker for one connection to a server: decides whether a request should wait for the
/// connection, or fail at once. A completed handshake closes it.
///
/// When a connection is lost for the first time, requests go on waiting, because the pipeline
/// connects again at once. The breaker is open (is_broken()) once an attempt to connect has failed,
/// and if the connection was lost after the server had been silent or give_up() was called. Used by
/// the thread that leads the RemoteWorker only, except server(), late_error() and
/// pipeline_options(), which never change.
class ServerHealth {
 public:
  using Clock = std::chrono::steady_clock;

  /// `server` begins each error sentence: "redis 127.0.0.1:6379". The server counts as silent if
  /// the oldest command in flight has been unanswered for twice the deadline of a decision.
  /// `monitor` receives the state of the server, and outlives this; null if the store does not need
  /// this server.
  ServerHealth(std::string server, std::chrono::nanoseconds deadline,
               StoreMonitor* monitor = nullptr)
      : server_(std::move(server)),
        deadline_(deadline),
        late_(server_ + " did not answer within " + format_duration(deadline.count())),
        silent_(server_ + " has not answered for a while"),
        monitor_(monitor) {
    if (monitor_ != nullptr) monitor_->add(state_);
  }
  ~ServerHealth() {
    if (monitor_ != nullptr) monitor_->forget(state_);
  }
  ServerHealth(const ServerHealth&) = delete;
  ServerHealth& operator=(const ServerHealth&) = delete;

  const std::string& server() const { return server_; }
  /// The error of a decision that was not made in time: "x did not answer within 10ms".
  const std::string& late_error() const { return late_; }
  /// The options for a pipeline to the server: it gives the connection up after such a silence, and
  /// an unanswered handshake after the same time, at most 5 s; neither sooner than by its default.
  PipelineOptions pipeline_options(const Endpoint& endpoint, std::size_t max_in_flight) const {
    PipelineOptions options{.endpoint = endpoint, .max_in_flight = max_in_flight};
    const auto silence = std::chrono::ceil<std::chrono::milliseconds>(2 * deadline_);
    options.silence_timeout = std::max(options.silence_timeout, silence);
    options.handshake_timeout = std::clamp(silence, options.handshake_timeout, kMostForHandshake);
    return options;
  }

  /// The server is connected and has answered the handshake.
  void on_up() {
    state_.now = ServerState::kUp;
    given_up_ = false;
    if (monitor_ != nullptr) monitor_->update_state();
  }
  /// The connection is lost, or an attempt at one has failed.
  void on_down(std::string_view why) {
    const bool was_broken = is_broken();
    const bool is_waited_for = state_.now == ServerState::kUp && !given_up_;
    state_.now = is_waited_for ? ServerState::kLost : ServerState::kBroken;
    state_.down_why = why;
    if (is_waited_for || monitor_ == nullptr) return;
    if (!was_broken) monitor_->add(state_);
    monitor_->update_state();
  }
  /// The reply to what was sent at `sent` has arrived; returns the time.
  Clock::time_point on_reply(Clock::time_point sent) {
    const Clock::time_point now = Clock::now();
    if (monitor_ != nullptr) monitor_->on_reply(sent, now);
    return now;
  }
  /// The store is about to give the connection up, because the server must not be used now.
  void give_up() { given_up_ = true; }
  /// A call that was sent at `sent` was lost without a reply. Called before on_down().
  void on_lost(Clock::time_point sent) { given_up_ = given_up_ || is_silent(sent, Clock::now()); }

  /// The breaker is open: requests fail at once. False while the server is connected.
  bool is_broken() const { return state_.now == ServerState::kBroken; }

  /// Why a request that arrives now must fail at once: one sentence; empty if it may wait. If bytes
  /// have arrived that the pipeline has not received yet, this process is late, not the server.
  std::string_view why_not(const RequestPipeline& pipeline, Clock::time_point now) const {
    if (is_broken()) return state_.down_why;
    const auto oldest = pipeline.waiting_since();
    if (oldest && is_silent(*oldest, now) && !pipeline.has_unread()) return silent_;
    return {};
  }

 private:
  static constexpr std::chrono::milliseconds kMostForHandshake{5'000};

  bool is_silent(Clock::time_point since, Clock::time_point now) const {
    return now - since > 2 * deadline_;
  }

  const std::string server_;
  const std::chrono::nanoseconds deadline_;
  const std::string late_;
  const std::string silent_;
  StoreMonitor* const monitor_;
  ServerState state_;
  bool given_up_ = false;
};

}  // namespace sluice
