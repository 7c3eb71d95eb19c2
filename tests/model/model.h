#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/store.h"
#include "model/part.h"

namespace sluice::model {

/// A limit expression: one limit, or several joined by `&`, none of which is `concurrency`.
using ModelLimits = std::vector<ModelLimit>;

/// The expression from which sluice::Limit makes these limits.
std::string expression(const ModelLimits& limits);

/// Whether it is a `concurrency` limit.
bool lends(const ModelLimits& limits);

/// One request, the counterpart of sluice::Request.
struct ModelRequest {
  std::string space;
  ModelLimits limits;
  std::string key;
  Operation operation = Operation::kTake;
  std::int64_t cost = 1;
  std::int64_t patience_ns = kDefaultPatience;
  std::int64_t duration_ns = 0;
  PermitId permit = 0;
  std::uint8_t uncounted_parts = 0;
};

/// The decisions that every store must make, computed in the slow and obvious way. Forgets nothing
/// unless the definitions require it. Not thread-safe.
class Model {
 public:
  /// The counterpart of Store::decide() with a batch of one.
  Decision decide(const ModelRequest& request, Instant now);

  /// The counterpart of Store::decide_all(). REQUIRES: no two requests have the same space and key.
  Decision decide_all(const std::vector<ModelRequest>& requests, Instant now);

  /// The decisions that were combined to the last one: of the parts of one request, or of each
  /// request of a list, with those of its parts behind it.
  const std::vector<Decision>& parts() const { return parts_; }

 private:
  struct Key {
    std::vector<PartState> parts;
    PermitBook permits;
    Wide blocked_until = 0;
  };
  using Answers = std::vector<Decision>;

  /// The key's states; fresh if the stored ones have no meaning under the request's limits.
  Key find(const ModelRequest& request) const;
  void keep(const ModelRequest& request, const Key& key);

  static Answers peeks(const ModelRequest& request, Instant now, const Key& key);
  /// What each part does and answers on its own, whether the key is blocked or not.
  static Answers act(const ModelRequest& request, Instant now, Key& key);
  static Answers act_on_permits(const ModelRequest& request, const PartCall& call, Key& key);
  /// The decision of each part. The key changes only if all admit.
  static Answers attempt(const ModelRequest& request, Instant now, Key& key);
  /// The request for as many units as remain, or for one if none do.
  static ModelRequest for_what_remains(ModelRequest request, Instant now, const Key& key);

  std::map<std::pair<std::string, std::string>, Key> keys_;
  Answers parts_;
};

}  // namespace sluice::model
