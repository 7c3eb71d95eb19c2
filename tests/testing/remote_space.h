#pragma once

#include <string_view>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/store.h"

namespace sluice {

/// The least that a RemoteStore needs of its spaces.
class RemoteSpace final : public Space {
 public:
  RemoteSpace(std::string_view /*prefix*/, const LimitDefinition& limit) : parts_(limit.parts) {}

  const std::vector<AnyPart>& parts() const { return parts_; }

 private:
  const std::vector<AnyPart> parts_;
};

}  // namespace sluice
