#include <boost/json/array.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/batch.h"
#include "core/number_text.h"
#include "pages/pages.h"
#include "protocols/http/endpoints.h"
#include "protocols/http/json_body.h"
#include "sluice/limit.h"
#include "stores/memory/memory_store.h"

namespace sluice::http {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxLimits = 16;
constexpr std::size_t kMaxArrivals = 10'000;
// Counts each part of a limit. The serving thread answers no other request during the simulation,
// which usually takes about two milliseconds.
constexpr std::size_t kMaxDecisions = 20'000;
constexpr std::size_t kStoreBytes = std::size_t{16} << 20;
// The beginning of the year 2100.
constexpr double kLatestMs = 4'102'444'800'000.0;

struct Arrival {
  Instant at = 0;
  std::int64_t cost = 1;
};

std::string named(std::string_view array, std::size_t i) {
  return "\"" + std::string(array) + "\"[" + std::to_string(i) + "]";
}

// A number of milliseconds, which may have a fraction.
Instant read_instant(const json::value& value) {
  json::error_code error;
  const double at_ms = value.to_number<double>(error);
  if (error || !(at_ms >= 0 && at_ms <= kLatestMs)) {
    throw Problem{.detail = "there must be a time in milliseconds from 0 to the year 2100"};
  }
  return std::llround(at_ms * 1e6);
}

Arrival read_arrival(const json::value& value) {
  if (!value.is_object()) return {.at = read_instant(value)};
  Members members(value);
  const Arrival arrival{.at = read_instant(members.value("at_ms")),
                        .cost = members.integer("cost", {.most = kMaxCount}, 1)};
  members.end();
  return arrival;
}

std::vector<Arrival> read_arrivals(const json::array& array) {
  if (array.size() > kMaxArrivals) {
    throw Problem{.detail = "there are " + std::to_string(array.size()) + " arrivals, at most " +
                            std::to_string(kMaxArrivals)};
  }
  std::vector<Arrival> arrivals;
  arrivals.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    try {
      arrivals.push_back(read_arrival(array[i]));
    } catch (Problem& problem) {
      problem.detail.insert(0, named("arrivals", i) + ": ");
      throw;
    }
    if (i > 0 && arrivals[i].at < arrivals[i - 1].at) {
      throw Problem{.detail = named("arrivals", i) + " is before the one in front of it"};
    }
  }
  return arrivals;
}

std::vector<Limit> read_limits(const json::array& array) {
  if (array.empty() || array.size() > kMaxLimits) {
    throw Problem{.detail = "there must be 1 to " + std::to_string(kMaxLimits) + " limits"};
  }
  std::vector<Limit> limits;
  for (std::size_t i = 0; i < array.size(); ++i) {
    const json::string* const text = array[i].if_string();
    if (text == nullptr) throw Problem{.detail = named("limits", i) + " must be a string"};
    try {
      limits.emplace_back(std::string_view(text->data(), text->size()),
                          "limit_" + std::to_string(i));
    } catch (const InvalidLimit& error) {
      throw Problem{.detail = named("limits", i) + ": " + error.what(),
                    .members = ",\"index\":" + std::to_string(i) +
                               ",\"offset\":" + std::to_string(error.position())};
    }
  }
  return limits;
}

// Decides all arrivals in virtual time.
std::vector<Decision> decide(MemoryStore& store, const Limit& limit, std::string_view key,
                             const std::vector<Arrival>& arrivals) {
  const std::shared_ptr<Space> space = store.open_space(limit.definition());
  Request request{.limit = &limit.definition(), .space = space.get(), .key = key};
  std::vector<Decision> decisions(arrivals.size());
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    request.cost = arrivals[i].cost;
    request.permit = i + 1;
    store.decide({&request, 1}, arrivals[i].at, {&decisions[i], 1});
  }
  return decisions;
}

// A member that is an array with one element for each decision.
template <class Append>
void append_column(std::string& body, std::string_view name, const std::vector<Decision>& decisions,
                   const Append& append) {
  body.append(",\"").append(name).append("\":[");
  for (const Decision& decision : decisions) {
    append(decision);
    body += ',';
  }
  if (decisions.empty()) {
    body += ']';
  } else {
    body.back() = ']';
  }
}

void append_limit(std::string& body, const Limit& limit, const std::vector<Decision>& decisions) {
  const auto append_wait = [&](std::chrono::nanoseconds wait) {
    if (wait == kNever) {
      body += "null";
    } else {
      append_number(body, std::chrono::ceil<std::chrono::milliseconds>(wait).count());
    }
  };
  body.append(R"({"limit":)");
  append_json_string(body, limit.expression());
  append_column(body, "allowed", decisions,
                [&](const Decision& decision) { body += decision.allowed ? "true" : "false"; });
  append_column(body, "remaining", decisions,
                [&](const Decision& decision) { append_number(body, decision.remaining); });
  append_column(body, "retry_after_ms", decisions,
                [&](const Decision& decision) { append_wait(decision.retry_after); });
  append_column(body, "reset_after_ms", decisions,
                [&](const Decision& decision) { append_wait(decision.reset_after); });
  append_column(body, "delay_ms", decisions,
                [&](const Decision& decision) { append_wait(decision.delay); });
  body.append("},");
}

}  // namespace

void run_playground(RequestContext& context) {
  static const std::string page = pages::filled(pages::playground_page(), "{}");
  context.respond({.content_type = "text/html; charset=utf-8", .body = page});
}

void run_simulate(RequestContext& context) {
  const json::value document = parse_body(context.thread, context.message);
  Members members(document);
  const std::vector<Limit> limits = read_limits(members.array("limits"));
  const std::vector<Arrival> arrivals = read_arrivals(members.array("arrivals"));
  const std::string_view key = members.has("key") ? members.text("key") : "key";
  members.end();
  std::size_t parts = 0;
  for (const Limit& limit : limits) parts += limit.parts().size();
  if (parts * arrivals.size() > kMaxDecisions) {
    throw Problem{.detail = std::to_string(parts) + " limits and " +
                            std::to_string(arrivals.size()) + " arrivals are more than " +
                            std::to_string(kMaxDecisions) + " decisions"};
  }
  context.is_last = true;  // The other connections have their turn before the next one.
  std::string body = R"({"limits":[)";
  try {
    MemoryStore store({.max_bytes = kStoreBytes, .table = {}});
    for (const Limit& limit : limits) {
      append_limit(body, limit, decide(store, limit, key, arrivals));
    }
  } catch (const StoreError& error) {
    throw Problem{.status = 503, .detail = error.what()};
  }
  body.back() = ']';
  body += '}';
  context.respond({.content_type = kJson, .body = body});
}

}  // namespace sluice::http
