#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/instant.h"
#include "replay/output_file.h"
#include "sluice/decision.h"

namespace sluice::replay {

/// A request and its decision.
struct Judged {
  Instant time_ns = 0;
  std::string_view key;
  std::int64_t cost = 1;
  Decision decision;
  /// The decision of each part of an `a & b`; otherwise empty.
  std::span<const Decision> parts = {};
};

/// Writes decisions to a descriptor as JSON Lines:
///
///     {"time_ns":0,"key":"a","cost":1,"limit_expr":"…","allowed":true,"limit":16,"remaining":15,
///      "retry_after_ns":0,"reset_after_ns":2000000000,"delay_ns":0}
///
/// on one line each; retry_after_ns -1 is never. For limits that are joined by `&` there are two
/// more fields: "binding" is the index of the part whose numbers these are, and "parts" the
/// decisions of all parts, with the fields from "allowed" to "delay_ns". Buffered. Not thread-safe.
class DecisionWriter {
 public:
  /// The file must outlive it. Without finish(), buffered text is lost.
  explicit DecisionWriter(OutputFile& file);

  /// `limit_json` is the limit's expression as a JSON string, with quotes. Throws
  /// std::runtime_error with one sentence if buffered text cannot be written.
  void write(const Judged& judged, std::string_view limit_json);

  /// Writes buffered text, but none that write() could not write, and closes the file. Throws as
  /// write(). REQUIRES: called once, as the last call.
  void finish();

 private:
  void append(const Decision& decision);
  void flush();

  OutputFile& file_;
  std::string buffer_;
};

}  // namespace sluice::replay
