#pragma once

#include "server/log.h"
#include "sluice/health.h"

namespace sluice {

/// An observer that logs the events of a store, but not that it is connected for the first time.
StoreObserver log_store_events(LogFunction log);

}  // namespace sluice
