#include "advise/advice_report.h"
#include "replay/json_writer.h"
#include "replay/report.h"

namespace sluice::advise {
namespace {

using replay::JsonWriter;

void write_shares(JsonWriter& json, std::string_view name,
                  const std::array<std::int64_t, kDeniedShares.size()>& limits) {
  constexpr std::string_view kNames[] = {"5%", "1%", "0.1%"};
  json.open(name, '{');
  for (std::size_t i = 0; i < limits.size(); ++i) json.add(kNames[i], limits[i]);
  json.close('}');
}

void write_bursts(JsonWriter& json, const Advice& advice) {
  json.add_objects("units_in_any_window", advice.burstiness, [&](const Burstiness& window) {
    json.add("window_ns", window.window_ns);
    json.add("50%", window.half);
    json.add("90%", window.nine_tenths);
    json.add("99%", window.all_but_hundredth);
    json.add("most", window.most);
  });
}

void write_families(JsonWriter& json, const Advice& advice) {
  json.add_objects("limits", advice.families, [&](const FamilyAdvice& family) {
    json.add("limit_expr", family.expression);
    write_shares(json, "keys_denied", family.keys);
    write_shares(json, "requests_denied", family.requests);
  });
}

void write_hits(JsonWriter& json, const Advice& advice) {
  const auto add_status = [&](std::string_view name, std::uint64_t requests) {
    if (advice.has_status) {
      json.add(name, requests);
    } else {
      json.add(name, nullptr);
    }
  };
  json.add_objects("hit_first", advice.hit_first, [&](const HitKey& hit) {
    json.add("key", hit.key);
    json.add("requests", hit.requests);
    json.add("denied", hit.denied);
    json.add("needs", hit.needs);
    json.add("busiest_minute", hit.busiest_minute);
    json.add("span_ns", hit.span_ns);
    add_status("status_4xx", hit.client_errors);
    add_status("status_5xx", hit.server_errors);
    json.add("user_agent", hit.user_agent);
    json.add("user_agent_at_least", hit.user_agent_requests);
    json.add("path", hit.path);
    json.add("path_at_least", hit.path_requests);
  });
}

void write_suggestions(JsonWriter& json, const Advice& advice) {
  json.add_objects("suggestions", advice.suggestions, [&](const Suggestion& suggestion) {
    json.add("name", suggestion.name);
    json.add("limit_expr", suggestion.expression);
    json.add("denied", suggestion.requests_denied);
    json.add("keys_limited", suggestion.keys_denied);
    json.add("reason", suggestion.reason);
  });
}

}  // namespace

std::string advice_json(const Advice& advice) {
  JsonWriter json(JsonWriter::Layout::kIndented);
  json.open('{');
  replay::write_log(json, advice.log);
  json.add("keys", advice.keys);
  json.add("keys_kept", advice.keys_kept);
  json.add("is_sample", advice.is_sample);
  write_bursts(json, advice);
  write_families(json, advice);
  write_hits(json, advice);
  write_suggestions(json, advice);
  json.open("unknowns", '[');
  for (const std::string& sentence : advice.unknowns) json.add(sentence);
  json.close(']');
  json.close('}');
  return std::move(json).text() + '\n';
}

}  // namespace sluice::advise
