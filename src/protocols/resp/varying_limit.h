#pragma once

#include <memory>

#include "algorithms/limit_definition.h"
#include "core/store.h"

namespace sluice::resp {

/// A limit whose numbers a command has brought, and the space that it shares with others.
struct VaryingLimit {
  LimitDefinition definition;
  std::shared_ptr<Space> space;

  /// A request about a key. Refers to the key, and to this.
  Request request(std::string_view key) const {
    return {.limit = &definition, .space = space.get(), .key = key};
  }
};

}  // namespace sluice::resp
