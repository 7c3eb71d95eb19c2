#include "stores/redis/cluster_slots.h"

#include "stores/redis/slots.h"

namespace sluice::redis {
namespace {

bool is_slot(const Reply& reply) {
  return reply.kind == Reply::Kind::kInteger && reply.integer >= 0 &&
         reply.integer < static_cast<std::int64_t>(kSlots);
}

}  // namespace

std::optional<std::vector<SlotRange>> read_cluster_slots(const Reply& reply) {
  if (reply.kind != Reply::Kind::kArray) return std::nullopt;
  std::vector<SlotRange> ranges;
  for (const Reply& range : reply.elements) {
    // First, last, the primary as [host, port, id ...], then its replicas.
    if (range.elements.size() < 3 || !is_slot(range.elements[0]) || !is_slot(range.elements[1])) {
      return std::nullopt;
    }
    const std::vector<Reply>& primary = range.elements[2].elements;
    if (primary.size() < 2 || primary[1].integer < 1 || primary[1].integer > 65'535) {
      return std::nullopt;
    }
    // "?" is a host that the node does not know, as the empty one is.
    const std::string_view host = primary[0].text == "?" ? "" : primary[0].text;
    ranges.push_back({.first = static_cast<std::uint16_t>(range.elements[0].integer),
                      .last = static_cast<std::uint16_t>(range.elements[1].integer),
                      .host = std::string(host),
                      .port = static_cast<std::uint16_t>(primary[1].integer)});
  }
  return ranges;
}

}  // namespace sluice::redis
