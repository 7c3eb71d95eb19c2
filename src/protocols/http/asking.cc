#include "protocols/http/asking.h"

#include <cassert>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "algorithms/limit_definition.h"
#include "protocols/http/json_body.h"
#include "service/misfit.h"
#include "sluice/store.h"

namespace sluice::http {
namespace {

// Valid names and expressions are far shorter.
constexpr std::size_t kMaxLimitBytes = 4 * 1024;

}  // namespace

const SharedLimit& find_limit(ThreadState& thread, std::string_view text) {
  if (text.size() > kMaxLimitBytes) {
    throw Problem{.detail = "the limit has more than " + std::to_string(kMaxLimitBytes) + " bytes"};
  }
  try {
    return thread.context.limits.find(text);
  } catch (const UnknownLimit& error) {
    throw Problem{.status = 404, .detail = error.what()};
  } catch (const InvalidLimit& error) {
    throw Problem{.detail = error.what(),
                  .members = ",\"offset\":" + std::to_string(error.position())};
  } catch (const StoreError& error) {
    throw Problem{.status = 503, .detail = error.what(), .retry_after_s = 1};
  }
}

void require_kind(const RegisteredLimit& limit, const Request& request) {
  const LimitDefinition& definition = limit.limit.definition();
  switch (misfit_of(definition, request)) {
    case Misfit::kNone:
      return;
    case Misfit::kNoPermits:
      throw Problem{.detail = "'" + definition.space +
                              "' lends no permits, as a concurrency limit does: /v1/check takes "
                              "units from it"};
    case Misfit::kPermits:
      throw Problem{.detail = "'" + definition.space +
                              "' lends permits: /v1/permits/acquire takes one, and "
                              "/v1/permits/release gives it back"};
  }
}

void ask(RequestContext& context, const SharedLimit& limit, Request request, ReplyDetail detail) {
  require_kind(*limit, request);
  DecisionBatch& batch = context.thread.context.batch;
  detail.options = context.options;
  if (detail.form == Form::kReservation) detail.reserved.limit = limit;
  detail.limits.push_back(bound_for(limit, request.key));
  // The headers tell of each part of an `a & b`, and a reservation keeps how long each counts. What
  // is asked together has the decisions of the parts, also if it is one request.
  const bool may_tell_parts = detail.form == Form::kCheck || detail.form == Form::kAuth ||
                              detail.form == Form::kReservation;
  const bool tells_parts = may_tell_parts && detail.limits[0]->limit.definition().parts.size() > 1;
  if (tells_parts && context.waits_for_decisions()) return;
  if (tells_parts) request.parts_if_allowed = true;
  // If local states have carried out a commit, which is charged to the store later, the commit is
  // done.
  const bool is_commit = detail.form == Form::kCommit;
  if (detail.commit) detail.commit->set_asked();
  batch.add(limit, request,
            {.tag = context.replies.tag_with(std::move(detail)),
             .may_be_local = is_commit,
             .settles = is_commit});
  if (tells_parts) batch.ask_together();
}

Check read_check(ThreadState& thread, const boost::json::value& object) {
  Members members(object);
  const std::string_view limit = members.text("limit");
  Request request{.key = members.text("key")};
  request.cost = members.integer("cost", {}, 1);
  members.end();
  Check check{.limit = find_limit(thread, limit), .request = request};
  require_kind(*check.limit, check.request);
  return check;
}

Check read_check(ThreadState& thread, const boost::json::array& checks, std::size_t at) {
  assert(at < checks.size());
  const auto place = [=] { return "checks[" + std::to_string(at) + "]: "; };
  try {
    return read_check(thread, checks[at]);
  } catch (Problem& problem) {
    problem.detail.insert(0, place());
    throw;
  } catch (const std::system_error& error) {
    throw Problem{.status = 503, .detail = place() + error.what(), .retry_after_s = 1};
  }
}

HeaderStyle read_style(ThreadState& thread, std::string_view name) {
  if (name.empty()) return thread.rules->header_style;
  try {
    return header_style(name);
  } catch (const std::invalid_argument& error) {
    throw Problem{.detail = error.what()};
  }
}

}  // namespace sluice::http
