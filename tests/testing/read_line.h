#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "replay/record.h"

namespace sluice::replay {

// For the tests of replay.

/// The result of reading one line; `fields` are the requested ones, in that order.
struct ReadLine {
  Reading reading = Reading::kUnreadable;
  Record record;
  std::string reason;
  std::vector<std::string> fields;
};

inline ReadLine read_line(LineReader& reader, std::string_view line,
                          const std::vector<std::string_view>& names = {}) {
  std::vector<std::size_t> slots;
  for (const std::string_view name : names) slots.push_back(reader.slot(name).value());
  ReadLine result;
  result.reading = reader.read(line, result.record, result.reason);
  if (result.reading != Reading::kRecord) return result;
  for (const std::size_t slot : slots) result.fields.emplace_back(result.record.fields[slot]);
  return result;
}

}  // namespace sluice::replay
