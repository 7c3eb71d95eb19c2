#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/store.h"
#include "model/part.h"
#include "model/permit_book.h"

namespace sluice::model {

/// What a limit expression means: one limit, or several joined by `&`, none of which lends permits.
using ModelLimits = std::vector<ModelLimit>;

/// The text that sluice::Limit reads as these.
std::string expression(const ModelLimits& limits);

bool definable(const ModelLimits& limits);

/// Whether they lend permits.
bool lends(const ModelLimits& limits);

/// One question, the counterpart of sluice::Request.
struct ModelRequest {
  std::string space;
  ModelLimits limits;
  std::string key;
  Operation operation = Operation::kTake;
  std::int64_t cost = 1;
  std::int64_t patience_ns = kDefaultPatience;
  std::int64_t duration_ns = 0;
  PermitId permit = 0;
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
  struct Key {
    std::vector<PartState> parts;
    PermitBook permits;
    Wide blocked_until = 0;
  };
  using Answers = std::vector<Decision>;

  /// The key's states, fresh where what was kept cannot be read under these limits.
  Key find(const ModelRequest& request) const;
  void keep(const ModelRequest& request, const Key& key);

  static Answers peeks(const ModelRequest& request, Instant now, const Key& key);
  /// What each part answers for itself.
  static Answers act(const ModelRequest& request, Instant now, Key& key);
  static Answers act_on_permits(const ModelRequest& request, const PartCall& call, Key& key);
  /// What all parts and the block answer. The key changes only if that is allowed.
  static Decision attempt(const ModelRequest& request, Instant now, Key& key);
  static Decision take_up_to(ModelRequest request, Instant now, Key& key);

  std::map<std::pair<std::string, std::string>, Key> keys_;
};

}  // namespace sluice::model
