#pragma once

#include "core/store.h"
#include "limiter/bound_limit.h"
#include "sluice/limiter.h"

namespace sluice {

/// Asks one question and does not wait: `answered` is called once, before this returns where the
/// store answers at once. It is given the decision, or the StoreError that decide() would have
/// thrown. The key is copied, and the limit and its space are held until then; the store is not,
/// which answers what is under way when it goes. REQUIRES: the request is about `bound`.
void ask_later(Store& store, const BoundLimit& bound, const Request& request,
               DecisionCallback answered);

}  // namespace sluice
