#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/script_call.h"

namespace sluice::redis {

/// Of every call.
inline constexpr std::uint32_t kNumber = 0xfedcba98;

/// A call of the script and its requests, with the errors that it gives for them.
class ScriptRequests {
 public:
  explicit ScriptRequests(const RedisOptions& options = {}, Instant now = kStoreTime)
      : call_(options, now, kNumber) {}

  bool add(std::span<const Request> requests, Decision& decision) {
    PendingRequest& pending = pending_.emplace_back();
    pending.requests = requests;
    pending.decision = &decision;
    errors_.emplace_back();
    if (call_.add(pending)) return true;
    pending_.pop_back();
    errors_.pop_back();
    return false;
  }
  void forget(std::size_t i) { call_.forget(pending_[i]); }

  std::string command() const {
    std::string command;
    call_.write(command);
    return command;
  }

  /// A request with an error becomes kUnavailable, as with a RemoteWorker.
  bool read(std::string_view reply) {
    return call_.read(reply, [this](PendingRequest& pending, std::string_view error) {
      errors_[pending.place] = error;
      if (!error.empty()) *pending.decision = {.source = Source::kUnavailable};
    });
  }
  Instant judged_at() const { return call_.judged_at(); }

  bool may_be_executed(std::size_t i) const { return pending_[i].may_be_executed; }
  /// Of the requests and groups, in the order of add(); empty where there is none.
  const std::vector<std::string>& errors() const { return errors_; }

 private:
  std::deque<PendingRequest> pending_;
  std::vector<std::string> errors_;
  ScriptCall call_;
};

}  // namespace sluice::redis
