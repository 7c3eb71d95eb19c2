#pragma once

#include "server/log.h"
#include "sluice/health.h"

namespace sluice {

/// An observer that logs the events of a store, except the first connection.
StoreObserver log_store_events(LogFunction log);

}  // namespace sluice
