#include <algorithm>

#include "replay/record.h"

namespace sluice::replay {
namespace {

bool can_read(LineReader& reader, std::string_view line, std::string& reason) {
  Record record;
  return reader.read(line, record, reason) == Reading::kRecord;
}

Recognised recognise_any(std::string_view line, std::string& reason) {
  const std::size_t blanks = std::min(line.size(), line.find_first_not_of(" \t"));
  if (line.substr(blanks).starts_with('{')) {
    auto reader = make_json_lines_reader();
    return {.reader = can_read(*reader, line, reason) ? std::move(reader) : nullptr};
  }
  std::string unused;
  if (auto reader = make_csv_reader(line, unused)) {
    return {.reader = std::move(reader), .is_header = true};
  }
  for (const Format format : {Format::kCombined, Format::kCommon}) {
    auto reader = make_log_reader(format);
    if (can_read(*reader, line, reason)) return {.reader = std::move(reader)};
  }
  reason = "not JSON, no CSV header with a column time, and as a log line: " + reason;
  return {};
}

}  // namespace

Recognised recognise(std::string_view line, Format wanted, std::string& reason) {
  switch (wanted) {
    case Format::kAuto:
      return recognise_any(line, reason);
    case Format::kCsv:
      return {.reader = make_csv_reader(line, reason), .is_header = true};
    case Format::kJsonLines:
      return {.reader = make_json_lines_reader()};
    case Format::kCommon:
    case Format::kCombined:
      break;
  }
  return {.reader = make_log_reader(wanted)};
}

}  // namespace sluice::replay
