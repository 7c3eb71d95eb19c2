#include <string>
#include <vector>

#include "core/number_text.h"
#include "core/read_number.h"
#include "protocols/http/endpoints.h"
#include "protocols/http/query.h"
#include "service/metrics.h"
#include "service/metrics_text.h"
#include "sluice/health.h"

namespace sluice::http {
namespace {

void respond_json(RequestContext& context, const std::string& body, int status = 200) {
  context.respond({.status = status, .content_type = kJson, .body = body});
}

}  // namespace

void run_limits(RequestContext& context) {
  if (context.waits_for_decisions()) return;
  std::string body = R"({"limits":[)";
  for (const LimitCount& limit : context.thread.server->limits()) {
    body.append(R"({"name":)");
    append_json_string(body, limit.name);
    body.append(R"(,"expression":)");
    append_json_string(body, limit.expression);
    body.append(R"(,"allowed":)");
    append_number(body, limit.allowed);
    body.append(R"(,"denied":)");
    append_number(body, limit.denied);
    if (limit.would_deny != 0) {
      body.append(R"(,"would_deny":)");
      append_number(body, limit.would_deny);
    }
    body.append("},");
  }
  body.back() = ']';  // There is always a row for all other limits.
  body += '}';
  respond_json(context, body);
}

void run_health(RequestContext& context) {
  respond_json(context, R"({"status":"ok"})");
}

void run_ready(RequestContext& context) {
  const ServerContext& server = *context.thread.server;
  if (server.is_draining()) {
    return respond_json(context, R"({"status":"draining"})", 503);
  }
  // Any client may ask this, so the answer does not say why the store is lost; the log does.
  const bool is_lost = health(server.store()).state == StoreHealth::State::kDown;
  respond_json(context, is_lost ? R"({"status":"degraded"})" : R"({"status":"ready"})");
}

void run_top(RequestContext& context) {
  if (context.waits_for_decisions()) return;
  const std::string_view query = context.message.query();
  Arena& arena = *context.thread.arena;
  const std::string_view limit = query_value(query, "limit", arena);
  if (limit.empty()) throw Problem{.status = 400, .detail = "the parameter limit is missing"};
  const std::string_view n = query_value(query, "n", arena);
  std::size_t most = ServerContext::kUsualTop;
  if (!n.empty() && (!read_number(n, most) || most < 1 || most > ServerContext::kMaxTop)) {
    throw Problem{.status = 400, .detail = "the parameter \"n\" must be an integer from 1 to 1000"};
  }
  std::vector<KeyCount> rows;
  try {
    rows = context.thread.server->top(limit, most);
  } catch (const UnknownLimit& error) {
    throw Problem{.status = 404, .detail = error.what()};
  }
  std::string body = R"({"limit":)";
  append_json_string(body, limit);
  body.append(R"(,"keys":[)");
  for (const KeyCount& row : rows) {
    body.append(body.back() == '[' ? R"({"key":)" : R"(,{"key":)");
    append_json_string(body, row.key);
    body.append(R"(,"denied":)");
    append_number(body, row.count);
    body.append(R"(,"error":)");
    append_number(body, row.error);
    body += '}';
  }
  body.append("]}");
  respond_json(context, body);
}

void run_metrics(RequestContext& context) {
  if (context.waits_for_decisions()) return;
  context.respond({.status = 200,
                   .content_type = MetricsText::kContentType,
                   .body = metrics_text(*context.thread.server)});
}

}  // namespace sluice::http
