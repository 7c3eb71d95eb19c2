#include "replay/json_writer.h"
#include "replay/report.h"

namespace sluice::replay {
namespace {

void write_limit(JsonWriter& json, const LimitSummary& limit, std::uint64_t requests,
                 std::uint64_t keys_seen) {
  json.add("limit_expr", limit.expression);
  json.add("requests", requests);
  json.add("admitted", requests - limit.denied);
  json.add("denied", limit.denied);
  json.add("keys_seen", keys_seen);
  json.add("keys_limited", limit.keys_limited);
  if (limit.worst_minute) {
    json.open("worst_minute", '{');
    json.add("start_ns", limit.worst_minute->start_ns);
    json.add("denied", limit.worst_minute->denied);
    json.close('}');
  } else {
    json.add("worst_minute", nullptr);
  }
  write_most_denied(json, limit);
}

}  // namespace

void write_most_denied(JsonWriter& json, const LimitSummary& limit) {
  json.add_objects("most_denied", limit.most_denied, [&](const KeyCount& count) {
    json.add("key", count.key);
    json.add("denied", count.denied);
    json.add("requests", count.requests);
  });
}

void write_log(JsonWriter& json, const LogSummary& log) {
  json.add("key", log.key);
  json.add("requests", log.requests);
  json.add("unreadable_lines", log.unreadable);
  json.add("late_requests", log.late);
  json.add("most_late_ns", log.most_late_ns);
  if (log.requests == 0) {
    json.add("first_ns", nullptr);
    json.add("last_ns", nullptr);
  } else {
    json.add("first_ns", log.first_ns);
    json.add("last_ns", log.last_ns);
  }
}

void write_report(JsonWriter& json, const Summary& summary, const LogSummary& log) {
  json.open('{');
  write_log(json, log);
  json.add_objects("limits", summary.limits, [&](const LimitSummary& limit) {
    write_limit(json, limit, log.requests, summary.keys_seen);
  });
  json.close('}');
}

std::string json_report(const Summary& summary, const LogSummary& log) {
  JsonWriter json(JsonWriter::Layout::kIndented);
  write_report(json, summary, log);
  return std::move(json).text() + '\n';
}

}  // namespace sluice::replay
