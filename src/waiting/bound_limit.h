#pragma once

#include <memory>

#include "core/store.h"
#include "sluice/limit.h"

namespace sluice {

/// A limit and the place where its keys live in one store: what a Request needs.
struct BoundLimit {
  Limit limit;
  std::shared_ptr<Space> space;

  /// A request to take one unit, of which most is as usual. Refers to the key, and to this.
  Request request(std::string_view key) const {
    return {.limit = &limit.definition(), .space = space.get(), .key = key};
  }
};

}  // namespace sluice
