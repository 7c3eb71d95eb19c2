#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <optional>
#include <string>
#include <utility>

#include "core/near_miss.h"
#include "core/read_number.h"
#include "core/store.h"
#include "protocols/http/asking.h"
#include "protocols/http/endpoints.h"
#include "protocols/http/key_template.h"
#include "protocols/http/query.h"

namespace sluice::http {
namespace {

constexpr std::string_view kAuthPath = "/auth/";
constexpr std::string_view kClientIp = "{ip}";
constexpr std::string_view kParameters[] = {"limit",        "key",     "cost",   "deny_status",
                                            "allow_status", "headers", "require"};
/// The most bytes of all keys of a request together.
constexpr std::size_t kMaxKeyBytes = 64 * 1024;

/// What a proxy asks for, by the parameters of its query.
struct AuthQuery {
  boost::container::small_vector<std::string_view, 2> limits = {};
  /// The key for all limits; without it, each limit has the key that the file says.
  std::optional<std::string_view> key = {};
  /// A field of the key that must not be empty, or none.
  std::string_view required = {};
  std::string_view style = {};
  std::int64_t cost = 1;
  int allow_status = 204;
  int deny_status = 429;
};

int read_status(std::string_view name, std::string_view value, int one, int other) {
  const std::string texts[] = {std::to_string(one), std::to_string(other)};
  if (value == texts[0]) return one;
  if (value == texts[1]) return other;
  throw Problem{.detail = std::string(name) + " must be " + texts[0] + " or " + texts[1]};
}

std::int64_t read_cost(std::string_view value) {
  std::int64_t cost = 0;
  if (read_number(value, cost) && cost >= 0) return cost;
  throw Problem{.detail = "cost must be an integer, at least 0"};
}

// {header:Name} with or without its braces, or the name of a header alone.
std::string_view read_required(std::string_view value, Arena& arena) {
  if (value.starts_with('{') && value.ends_with('}')) value = value.substr(1, value.size() - 2);
  const bool is_field = value.find(':') != std::string_view::npos ||
                        std::ranges::find(kPlainFields, value) != kPlainFields.end();
  return is_field ? value : arena.copy("header:" + std::string(value));
}

AuthQuery read_query(std::string_view text, Arena& arena) {
  AuthQuery query;
  QueryReader parameters(text);
  std::string_view name;
  std::string_view value;
  boost::container::small_vector<std::string_view, 4> once;
  while (parameters.next(name, value)) {
    if (name != "limit") {
      if (std::find(once.begin(), once.end(), name) != once.end()) refuse_twice(name);
      once.push_back(name);
    }
    value = decode_percent(value, true, arena);
    if (name == "limit") {
      query.limits.push_back(value);
    } else if (name == "key") {
      query.key = value;
    } else if (name == "cost") {
      query.cost = read_cost(value);
    } else if (name == "deny_status") {
      query.deny_status = read_status(name, value, 403, 429);
    } else if (name == "allow_status") {
      query.allow_status = read_status(name, value, 200, 204);
    } else if (name == "headers") {
      query.style = value;
    } else if (name == "require") {
      query.required = read_required(value, arena);
    } else {
      throw Problem{.detail = "there is no parameter \"" + std::string(name) + "\" of /auth" +
                              suggest_name(name, kParameters)};
    }
  }
  return query;
}

// Whether the client accepts the body of a denial, or has no Accept header.
bool accepts_problem(const Message& message) {
  if (!message.has_field("Accept")) return true;
  for (const HeaderField& field : message.fields) {
    if (!equals_ignoring_case(field.name, "Accept")) continue;
    for (const std::string_view type :
         {kProblemJson, std::string_view("application/*"), std::string_view("*/*")}) {
      if (field.value.find(type) != std::string_view::npos) return true;
    }
  }
  return false;
}

// Denies a request without the required field, whatever its limits say. Returns whether it did.
bool deny_without(const AuthQuery& query, const OriginalRequest& request, RequestContext& context) {
  if (query.required.empty()) return false;
  std::string value;
  request.append_field(query.required, value);
  if (!value.empty()) return false;
  std::string& output = context.thread.context.batch.other_replies(context.output);
  if (accepts_problem(context.message)) {
    write_problem(output, context.options, context.date(),
                  {.status = query.deny_status,
                   .detail = "the request has no {" + std::string(query.required) + "}"});
  } else {
    const HttpHeader not_stored{"Cache-Control", "no-store"};
    write_response(output, context.options, context.date(),
                   {.status = query.deny_status, .headers = {&not_stored, 1}});
  }
  return true;
}

/// Makes the keys of a request: one for all limits if the request names it, else that of each
/// limit. The keys are stored in the thread's arena.
class Keys {
 public:
  Keys(const AuthQuery& query, const OriginalRequest& request, Arena& arena)
      : request_(request), arena_(arena) {
    if (query.key) named_ = make(*query.key);
  }

  std::string_view of(const RegisteredLimit& limit) {
    if (named_) return *named_;
    return make(limit.key.empty() ? kClientIp : std::string_view(limit.key));
  }

 private:
  std::string_view make(std::string_view key_template) {
    std::string key;
    request_.append_key(key_template, key);
    bytes_ += key.size();
    if (bytes_ > kMaxKeyBytes) {
      throw Problem{.detail = "the keys of the request have more than " +
                              std::to_string(kMaxKeyBytes) + " bytes"};
    }
    return arena_.copy(key);
  }

  const OriginalRequest& request_;
  Arena& arena_;
  std::optional<std::string_view> named_;
  std::size_t bytes_ = 0;
};

void ask_auth(RequestContext& context, const AuthQuery& query, const OriginalRequest& request) {
  ThreadState& thread = context.thread;
  if (query.limits.empty()) throw Problem{.detail = "the parameter limit is missing"};
  if (query.limits.size() > kMaxTogether) {
    throw Problem{.detail = "there are more than " + std::to_string(kMaxTogether) + " limits"};
  }
  if (query.limits.size() > 1 && context.waits_for_decisions()) return;
  boost::container::small_vector<Check, 2> checks;
  for (const std::string_view name : query.limits) {
    checks.push_back({find_limit(thread, name), {.cost = query.cost}});
    require_kind(*checks.back().limit, checks.back().request);
  }
  if (deny_without(query, request, context)) return;
  ReplyDetail detail{.form = Form::kAuth,
                     .options = context.options,
                     .style = read_style(thread, query.style),
                     .has_problem = accepts_problem(context.message),
                     .allow_status = query.allow_status,
                     .deny_status = query.deny_status};
  Keys keys(query, request, *thread.arena);
  for (Check& check : checks) check.request.key = keys.of(*check.limit);
  if (checks.size() == 1) {
    return ask(context, checks[0].limit, checks[0].request, std::move(detail));
  }
  for (const Check& check : checks) {
    detail.limits.push_back(bound_for(check.limit, check.request.key));
  }
  DecisionBatch& batch = thread.context.batch;
  const std::uint32_t tag = context.replies.tag_with(std::move(detail));
  for (const Check& check : checks) batch.add(check.limit, check.request, {.tag = tag});
  batch.ask_together();
}

}  // namespace

void run_auth(RequestContext& context) {
  const AuthQuery query = read_query(context.message.query(), *context.thread.arena);
  ask_auth(context, query, OriginalRequest(context));
}

// /auth/LIMIT/ORIGINAL/PATH?ORIGINAL=QUERY
void run_auth_path(RequestContext& context) {
  const std::string_view rest = context.message.target.substr(kAuthPath.size());
  const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
  AuthQuery query{.allow_status = 200};
  query.limits.push_back(decode_percent(rest.substr(0, end), false, *context.thread.arena));
  const std::string_view original = rest.substr(end);
  ask_auth(context, query, OriginalRequest(context, original.empty() ? "/" : original));
}

}  // namespace sluice::http
