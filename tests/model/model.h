#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/store.h"
#include "model/part.h"

namespace sluice::model {

/// What a limit expression means: one limit, or several joined by `&`.
using ModelLimits = std::vector<ModelLimit>;

/// The text that sluice::Limit reads as these.
std::string expression(const ModelLimits& limits);

bool definable(const ModelLimits& limits);

/// One question, the counterpart of sluice::Request.
struct ModelRequest {
  std::string space;
  ModelLimits limits;
  std::string key;
  Operation operation = Operation::kTake;
  std::int64_t cost = 1;
  std::int64_t patience_ns = kDefaultPatience;
};

/// The answers every store must give, worked out the slow and obvious way. Nothing is forgotten
/// before it must be. Not thread-safe.
class Model {
 public:
  /// The counterpart of Store::decide() with a batch of one.
  Decision decide(const ModelRequest& request, Instant now);

  /// The counterpart of Store::decide_all(). REQUIRES: no two requests of one space and key.
  Decision decide_all(const std::vector<ModelRequest>& requests, Instant now);

 private:
  using Parts = std::vector<PartState>;

  /// The key's states, fresh where what was kept cannot be read under these limits.
  Parts find(const ModelRequest& request) const;

  std::map<std::pair<std::string, std::string>, Parts> keys_;
};

}  // namespace sluice::model
