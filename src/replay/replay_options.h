#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

#include "replay/log.h"

namespace sluice::replay {

inline constexpr std::size_t kMaxLimits = 64;

struct ReplayOptions {
  LogOptions log = {};
  /// Limit expressions, 1 to kMaxLimits, all different; each decides independently.
  std::vector<std::string> limits = {};
  /// As open_store() takes it.
  std::string store = "memory:";
  /// The file for all decisions as JSON Lines; "-" is standard output, empty is none.
  std::string decisions = {};
  /// The file for the report as a web page; "-" is standard output, empty is none. REQUIRES then:
  /// at most kMaxCharted limits.
  std::string html = {};
  /// Add a plot of the denied requests over time to the tables: of at most kMaxCharted limits, and
  /// not with is_json.
  bool has_plot = false;
  /// Print the summary as JSON instead of tables.
  bool is_json = false;
};

}  // namespace sluice::replay
