#pragma once

#include <vector>

#include "model/part.h"

namespace sluice::model {

/// The state of one key under a `concurrency` limit: its permits, each with the instant at which it
/// expires, in the order in which they were granted.
class PermitBook {
 public:
  /// Grants the permit with the call's id, or denies; with cost 0 it is a peek.
  Decision take(const ModelLimit& limit, const PartCall& call);
  /// Renew or release a permit that is held; otherwise deny, with kNever.
  Decision renew(const ModelLimit& limit, const PartCall& call);
  Decision release(const ModelLimit& limit, const PartCall& call);
  Decision peek(const ModelLimit& limit, Instant now) const;

 private:
  struct Permit {
    std::uint64_t id = 0;
    Wide expires = 0;
  };

  Wide held_at(Wide now) const;
  bool holds(const PartCall& call) const;
  /// Removes expired permits, and the call's own.
  void forget(const PartCall& call);
  Decision denied(const ModelLimit& limit, Instant now, Wide retry) const;

  std::vector<Permit> permits_;
};

}  // namespace sluice::model
