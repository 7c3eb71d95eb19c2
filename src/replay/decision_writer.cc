#include "replay/decision_writer.h"

#include <utility>

#include "core/number_text.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kWriteBytes = std::size_t{256} * 1024;

}  // namespace

DecisionWriter::DecisionWriter(OutputFile& file) : file_(file) {
  buffer_.reserve(kWriteBytes * 2);
}

void DecisionWriter::write(const Judged& judged, std::string_view limit_json) {
  buffer_ += "{\"time_ns\":";
  append_number(buffer_, judged.time_ns);
  buffer_ += ",\"key\":";
  append_json_string(buffer_, judged.key);
  buffer_ += ",\"cost\":";
  append_number(buffer_, judged.cost);
  buffer_ += ",\"limit_expr\":";
  buffer_ += limit_json;
  buffer_ += ',';
  append(judged.decision);
  if (!judged.parts.empty()) {
    buffer_ += ",\"binding\":";
    append_number(buffer_, judged.decision.binding);
    buffer_ += ",\"parts\":";
    for (const Decision& part : judged.parts) {
      buffer_ += &part == judged.parts.data() ? "[{" : "},{";
      append(part);
    }
    buffer_ += "}]";
  }
  buffer_ += "}\n";
  if (buffer_.size() >= kWriteBytes) flush();
}

// The fields of a decision.
void DecisionWriter::append(const Decision& decision) {
  buffer_ += decision.allowed ? "\"allowed\":true,\"limit\":" : "\"allowed\":false,\"limit\":";
  append_number(buffer_, decision.limit);
  buffer_ += ",\"remaining\":";
  append_number(buffer_, decision.remaining);
  buffer_ += ",\"retry_after_ns\":";
  const bool never = decision.retry_after == kNever;
  append_number(buffer_, never ? std::int64_t{-1} : decision.retry_after.count());
  buffer_ += ",\"reset_after_ns\":";
  append_number(buffer_, decision.reset_after.count());
  buffer_ += ",\"delay_ns\":";
  append_number(buffer_, decision.delay.count());
}

void DecisionWriter::finish() {
  flush();
  file_.finish();
}

void DecisionWriter::flush() {
  // If the write fails, a part may be written, and finish() must not write it again.
  std::string text = std::exchange(buffer_, {});
  file_.write(text);
  text.clear();
  buffer_ = std::move(text);  // With its room.
}

}  // namespace sluice::replay
