#pragma once

#include <vector>

#include "model/part.h"

namespace sluice::model {

/// What one key has left behind under a limit of permits: each with the instant at which it lapses,
/// in the order in which they were given.
class PermitBook {
 public:
  /// Gives the permit of that name, or refuses; with cost 0, peeks.
  Decision take(const ModelLimit& limit, const PartCall& call);
  /// For a permit that is held; otherwise denied, never to be admitted.
  Decision renew(const ModelLimit& limit, const PartCall& call);
  Decision release(const ModelLimit& limit, const PartCall& call);
  Decision peek(const ModelLimit& limit, Instant now) const;

 private:
  struct Permit {
    std::uint64_t id = 0;
    Wide lapses = 0;
  };

  Wide held_at(Wide now) const;
  bool holds(const PartCall& call) const;
  /// Forgets what has lapsed, and the call's own.
  void forget(const PartCall& call);
  Decision denied(const ModelLimit& limit, Instant now, Wide retry) const;

  std::vector<Permit> permits_;
};

}  // namespace sluice::model
