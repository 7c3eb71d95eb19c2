#include "conformance/settle.h"

#include <algorithm>
#include <map>

namespace sluice::conformance {
namespace {

// The permit that an event renews or releases: mostly one of its own key. `earlier` are all events
// before it.
PermitId chosen_permit(const Draft& draft, const std::vector<Event>& earlier) {
  constexpr PermitId kUnknown = 77;
  const std::size_t choice = draft.choice / 8;
  std::vector<PermitId> candidates;
  for (const auto& event : earlier) {
    if (event.permit == 0 || event.operation != Operation::kTake) continue;
    const bool own = event.limit == draft.event.limit && event.key == draft.event.key;
    if (own || draft.choice % 8 == 1) candidates.push_back(event.permit);
  }
  if (candidates.empty() || draft.choice % 8 == 2) return kUnknown;
  return candidates[candidates.size() - 1 - choice % candidates.size()];
}

// The ids are spread over their whole range, in no order.
void name_permits(std::vector<Draft>& drafts) {
  std::vector<Event> earlier;
  for (auto& draft : drafts) {
    Event& event = draft.event;
    const bool names_one =
        event.operation == Operation::kRenew || event.operation == Operation::kRelease;
    event.permit = names_one ? chosen_permit(draft, earlier)
                             : (earlier.size() + 1) * std::uint64_t{0x9E3779B97F4A7C15};
    earlier.push_back(event);
  }
}

// After an event that follows the end of a key's block, no event for that key is before that end.
void stay_after_blocks(std::vector<Event>& events) {
  struct Block {
    Instant until = 0;
    Instant over = 0;
  };
  std::map<std::size_t, Block> keys;
  for (std::size_t i = 0; i < events.size(); ++i) {
    Event& event = events[i];
    Block& block = keys[event.key];
    if (event.together) event.now = events[i - 1].now;
    if (event.now < block.over) {
      event.now = block.over;
      event.together = false;
    }
    if (event.now >= block.until) block.over = block.until;
    if (event.operation == Operation::kBlock) {
      block.until = std::max(block.until, event.now + event.duration_ns);
    }
  }
}

}  // namespace

std::vector<Event> settled(std::vector<Draft> drafts) {
  name_permits(drafts);
  if (!drafts.empty()) drafts.front().event.together = false;
  const auto ordered = [](const Draft& d) { return !d.astray && !d.event.together; };
  std::vector<Instant> instants;
  for (const auto& draft : drafts) {
    if (ordered(draft)) instants.push_back(draft.event.now);
  }
  std::sort(instants.begin(), instants.end());
  auto next = instants.begin();
  std::vector<Event> events;
  for (auto& draft : drafts) {
    if (ordered(draft)) draft.event.now = *next++;
    if (draft.event.together) draft.event.now = events.back().now;
    events.push_back(draft.event);
  }
  stay_after_blocks(events);
  return events;
}

}  // namespace sluice::conformance
