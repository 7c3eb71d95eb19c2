#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/instant.h"
#include "replay/record.h"

namespace sluice::replay {

/// Which logs a command reads, and how.
struct LogOptions {
  /// Their requests are merged by time; "-" is standard input, and so is an empty list.
  std::vector<std::string> files = {};
  /// The key template (key_template.h); without one the format's default.
  std::optional<std::string> key = {};
  Format format = Format::kAuto;
  /// Stop at the first line that cannot be parsed.
  bool is_strict = false;
};

/// What a command that has read logs can say of them.
struct LogSummary {
  std::uint64_t requests = 0;
  /// The earliest and the latest instant; 0 if there was no request.
  Instant first_ns = 0;
  Instant last_ns = 0;
  /// The templates of the keys: one, unless files of different formats used their defaults; empty
  /// if no line was read.
  std::string key = {};
  /// How many lines could not be read.
  std::uint64_t unreadable = 0;
  /// How many requests came too late for their place in the order of time, and by how much at most.
  std::uint64_t late = 0;
  std::int64_t most_late_ns = 0;
  /// Whether a file was damaged; a message has been written then.
  bool is_damaged = false;
};

}  // namespace sluice::replay
