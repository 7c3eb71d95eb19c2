#pragma once

#include <cstdint>
#include <string>

#include "service/server_context.h"

namespace sluice {

/// All that the server counts, in Prometheus's text format (MetricsText::kContentType);
/// docs/metrics.md describes each metric. The number of series depends on the limits of the file,
/// not on what clients ask for. Takes some hundred microseconds. Thread-safe.
std::string metrics_text(const ServerContext& server);

/// The bytes of this process that are in the machine's memory; 0 where the system does not tell.
std::uint64_t resident_bytes();

}  // namespace sluice
