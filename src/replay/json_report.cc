#include "replay/report.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

void append_count(std::string& out, std::string_view name, std::uint64_t count) {
  out.append(name);
  append_number(out, count);
}

void append_instant(std::string& out, std::string_view name, Instant time_ns) {
  out.append(name);
  append_number(out, time_ns);
}

void append_worst_minute(std::string& out, const std::optional<WorstMinute>& worst) {
  out += ",\n      \"worst_minute\": ";
  if (!worst) {
    out += "null";
    return;
  }
  append_instant(out, "{\"start_ns\": ", worst->start_ns);
  append_count(out, ", \"denied\": ", worst->denied);
  out += "}";
}

void append_limit(std::string& out, const LimitSummary& limit, const Summary& summary) {
  out += "    {\n      \"limit_expr\": ";
  append_json_string(out, limit.expression);
  append_count(out, ",\n      \"requests\": ", summary.requests);
  append_count(out, ",\n      \"admitted\": ", summary.requests - limit.denied);
  append_count(out, ",\n      \"denied\": ", limit.denied);
  append_count(out, ",\n      \"keys_seen\": ", summary.keys_seen);
  append_count(out, ",\n      \"keys_limited\": ", limit.keys_limited);
  append_worst_minute(out, limit.worst_minute);
  out += ",\n      \"most_denied\": [";
  bool is_first = true;
  for (const KeyCount& count : limit.most_denied) {
    out += is_first ? "\n        {\"key\": " : ",\n        {\"key\": ";
    is_first = false;
    append_json_string(out, count.key);
    append_count(out, ", \"denied\": ", count.denied);
    append_count(out, ", \"requests\": ", count.requests);
    out += "}";
  }
  out += is_first ? "]\n    }" : "\n      ]\n    }";
}

}  // namespace

std::string json_report(const Summary& summary, const ReportContext& context) {
  std::string out = "{\n  \"key\": ";
  append_json_string(out, context.key);
  append_count(out, ",\n  \"requests\": ", summary.requests);
  append_count(out, ",\n  \"unreadable_lines\": ", context.unreadable);
  if (summary.requests == 0) {
    out += ",\n  \"first_ns\": null,\n  \"last_ns\": null";
  } else {
    append_instant(out, ",\n  \"first_ns\": ", summary.first_ns);
    append_instant(out, ",\n  \"last_ns\": ", summary.last_ns);
  }
  out += ",\n  \"limits\": [\n";
  bool is_first = true;
  for (const LimitSummary& limit : summary.limits) {
    if (!is_first) out += ",\n";
    is_first = false;
    append_limit(out, limit, summary);
  }
  return out + "\n  ]\n}\n";
}

}  // namespace sluice::replay
