#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/instant.h"

namespace sluice::replay {

/// A request of a log, with its key.
struct LoggedRequest {
  Instant time_ns = 0;
  /// 0 to kMaxCount; 0 is a peek.
  std::int64_t cost = 1;
  std::string_view key;
  /// The fields that RequestSink::details() names; empty texts for those that the line lacks.
  std::span<const std::string_view> details = {};
};

/// Takes the requests of a log.
class RequestSink {
 public:
  virtual ~RequestSink() = default;

  /// The names of the fields that it gets with each request besides the key.
  virtual std::span<const std::string_view> details() const { return {}; }

  /// Adds one request. The key remains valid until flush() returns, the details during the call.
  virtual void add(const LoggedRequest& request) = 0;

  /// Handles all added requests: their keys become invalid, or there are no more requests.
  virtual void flush() {}
};

}  // namespace sluice::replay
