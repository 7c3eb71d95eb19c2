#include <array>
#include <memory>
#include <string>
#include <utility>

#include "core/store.h"
#include "protocols/http/asking.h"
#include "protocols/http/check_list.h"
#include "protocols/http/endpoints.h"
#include "protocols/http/json_body.h"
#include "protocols/http/query.h"

namespace sluice::http {
namespace {

namespace json = boost::json;

// All or nothing: the batch has only these requests.
void check_all(RequestContext& context, const json::array& checks, HeaderStyle style) {
  if (context.waits_for_decisions()) return;
  if (checks.empty() || checks.size() > kMaxTogether) {
    throw Problem{.detail = "with \"all\" there must be 1 to " + std::to_string(kMaxTogether) +
                            " checks, there are " + std::to_string(checks.size())};
  }
  std::array<Check, kMaxTogether> read;
  ReplyDetail detail{.form = Form::kAll, .options = context.options, .style = style};
  for (std::size_t i = 0; i < checks.size(); ++i) {
    read[i] = read_check(context.thread, checks, i);
    detail.limits.push_back(bound_for(read[i].limit, read[i].request.key));
  }
  DecisionBatch& batch = context.thread.context.batch;
  const std::uint32_t tag = context.replies.tag_with(std::move(detail));
  for (std::size_t i = 0; i < checks.size(); ++i) {
    batch.add(read[i].limit, read[i].request, {.tag = tag});
  }
  batch.ask_together();
}

}  // namespace

void run_check(RequestContext& context) {
  ThreadState& thread = context.thread;
  json::value body = parse_body(thread, context.message);
  const HeaderStyle style =
      read_style(thread, query_value(context.message.query(), "headers", *thread.arena));
  Members members(body);
  if (!members.has("checks")) {
    if (!members.has("limit")) members.refuse_near_miss("checks");
    const Check check = read_check(thread, body);
    return ask(context, check.limit, check.request, {.form = Form::kCheck, .style = style});
  }
  const json::array& checks = members.array("checks");
  const bool is_all = members.flag("all");
  members.end();
  if (is_all) return check_all(context, checks, style);
  if (context.waits_for_decisions()) return;
  if (checks.size() > CheckList::kMost) {
    throw Problem{.detail = "there are " + std::to_string(checks.size()) + " checks, at most " +
                            std::to_string(CheckList::kMost)};
  }
  // The list keeps the parsed body, and the arena in which it is stored.
  context.list = std::make_unique<CheckList>(std::exchange(thread.arena, std::make_unique<Arena>()),
                                             std::move(body), context.options);
}

}  // namespace sluice::http
