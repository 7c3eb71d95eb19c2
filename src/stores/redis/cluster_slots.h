#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stores/redis/reply.h"

namespace sluice::redis {

/// The slots from first to last, and the primary that has them.
struct SlotRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  /// Empty: the node that was asked.
  std::string host;
  std::uint16_t port = 0;
};

/// Reads the reply to CLUSTER SLOTS; nothing where it is none.
std::optional<std::vector<SlotRange>> read_cluster_slots(const Reply& reply);

}  // namespace sluice::redis
