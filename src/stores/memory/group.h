#pragma once

#include <span>

#include "core/store.h"
#include "stores/memory/table.h"

namespace sluice::memory {

/// One request of a group, and where its key lives.
struct Member {
  Table* table = nullptr;
  Place place;
  Request request;
  /// When the key's block ends, or 0: found when the key is judged.
  Instant blocked_until = 0;
};

/// Charges all members or none, and answers as one. `judged` has room for every part of every
/// member. REQUIRES: the locks of all places are held; no two members share a table and a tag.
Decision decide_together(std::span<Member> members, Instant now, std::span<Judged> judged);

/// Takes as many of the request's units as remain. `judged` and REQUIRES as above.
Decision decide_up_to(Member& member, Instant now, std::span<Judged> judged);

}  // namespace sluice::memory
