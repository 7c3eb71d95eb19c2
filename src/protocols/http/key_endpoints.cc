#include <chrono>
#include <string>
#include <utility>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "protocols/http/asking.h"
#include "protocols/http/endpoints.h"
#include "protocols/http/json_body.h"
#include "protocols/http/query.h"
#include "service/permit_text.h"
#include "waiting/requests.h"
#include "waiting/wait_queues.h"

namespace sluice::http {
namespace {

namespace json = boost::json;

HeaderStyle style_of(RequestContext& context) {
  return read_style(context.thread,
                    query_value(context.message.query(), "headers", *context.thread.arena));
}

// How many units more than reserved a commit may charge. Operators may charge any number. Others
// may bring the key into debt by what its limit admits at once.
std::int64_t most_to_charge(const RequestContext& context, const Reservations::Reserved& reserved) {
  const bool is_free = reserved.giver == Source::kOverride;
  if ((context.roles & kAdminRole) != 0 || is_free) return Members::Range{}.most;
  // Of a full store that has admitted it, the cost is 0 because nothing was recorded.
  const bool reserved_none = reserved.cost == 0 && reserved.giver != Source::kFull;
  return reserved_none ? 0 : reserved.most_at_once;
}

// The limit by which a reservation is settled: the present one, if the limits have been replaced
// since it was granted. Throws Problem if the key has another state now than the one charged.
SharedLimit settled_by(ThreadState& thread, const Reservations::Reserved& reserved) {
  const RegisteredLimit& granted = *reserved.limit;
  // What no store has recorded is settled in no state.
  const bool is_unrecorded = reserved.giver == Source::kOverride;
  if (is_unrecorded || !granted.limit.definition().is_named()) return reserved.limit;
  try {
    const SharedLimit& present = thread.context.limits.find(granted.limit.space());
    // A limit of another kind has another space, and one that replaces that has a third.
    if (present->bound_for(reserved.key).space == granted.bound_for(reserved.key).space) {
      return present;
    }
  } catch (const InvalidLimit&) {  // Unknown, or the name of an algorithm.
    return reserved.limit;
  }
  throw Problem{
      .status = 404,
      .detail =
          "the key has started fresh since, under a limit of another kind, of which nothing "
          "is reserved"};
}

}  // namespace

void run_of_key(RequestContext& context, Operation operation, Form form) {
  const json::value body = parse_body(context.thread, context.message);
  Members members(body);
  const std::string_view limit = members.text("limit");
  Request request{.key = members.text("key"), .operation = operation};
  if (form == Form::kDecision && operation == Operation::kTake) {
    request.cost = 0;
  } else if (form != Form::kDone) {
    request.cost = members.integer("cost", {}, 1);
  }
  members.end();
  ask(context, find_limit(context.thread, limit), request,
      {.form = form, .style = style_of(context)});
}

void run_block(RequestContext& context) {
  const json::value body = parse_body(context.thread, context.message);
  Members members(body);
  const std::string_view limit = members.text("limit");
  Request request{.key = members.text("key"), .operation = Operation::kBlock};
  request.duration_ns =
      members.integer("duration_ms", {.least = 1, .most = kMaxDurationNs / kMillisecondNs}) *
      kMillisecondNs;
  members.end();
  ask(context, find_limit(context.thread, limit), request, {.form = Form::kDecision});
}

void run_reserve(RequestContext& context) {
  ThreadState& thread = context.thread;
  const json::value body = parse_body(thread, context.message);
  Members members(body);
  const std::string_view name = members.text("limit");
  Request request{.key = members.text("key")};
  request.cost = members.integer("cost", {}, 1);
  request.patience_ns =
      members.integer("patience_ms", {.most = kMaxDurationNs / kMillisecondNs}, 0) * kMillisecondNs;
  members.end();
  const SharedLimit& limit = find_limit(thread, name);
  require_kind(*limit, request);
  const Instant now = thread.server->store().now();
  auto place = thread.reservations->take_place(request.key.size(), now);
  if (!place) {
    throw Problem{.status = 503,
                  .detail = "this server has no room for the reservation: it holds at most " +
                            std::to_string(Reservations::kMost) + ", with keys of " +
                            std::to_string(Reservations::kMostKeyBytes >> 20U) + " MiB",
                  .retry_after_s = 1};
  }
  ask(context, limit, request,
      {.form = Form::kReservation,
       .style = style_of(context),
       .place = std::move(place),
       .reserved = {.key = std::string(request.key),
                    .cost = request.cost,
                    .asked_at = now,
                    .wakings = WaitingCallers::wakings()}});
}

void run_commit(RequestContext& context) {
  ThreadState& thread = context.thread;
  const json::value body = parse_body(thread, context.message);
  Members members(body);
  const std::string_view name = members.text("reservation");
  const std::int64_t actual = members.integer("cost", {});
  members.end();
  const Instant now = thread.server->store().now();
  auto [found, reserved, commit] = thread.reservations->begin_commit(name, now);
  switch (found) {
    case Reservations::Found::kHeld:
      break;
    case Reservations::Found::kCommitting:
      // The other commit may be in this batch, from the same connection.
      if (context.waits_for_decisions()) return;
      throw Problem{.status = 503,
                    .detail =
                        "the reservation is being committed: repeat the commit to learn how "
                        "that went",
                    .retry_after_s = 1};
    case Reservations::Found::kCommitted:
      throw Problem{.status = 409, .detail = "the reservation has been committed before"};
    case Reservations::Found::kUnknown:
      throw Problem{.status = 404,
                    .detail =
                        "there is no such reservation, or no longer: one that is not committed in "
                        "time stays spent"};
    case Reservations::Found::kElsewhere:
      throw Problem{.status = 421, .detail = "another server has given the reservation"};
  }
  const bool is_more = actual > reserved.cost;
  const std::int64_t most_more = most_to_charge(context, reserved);
  if (is_more && actual - reserved.cost > most_more) {
    throw Problem{.status = 403,
                  .detail =
                      "without the role admin, the cost of this reservation exceeds what was "
                      "reserved by at most " +
                      std::to_string(most_more)};
  }
  const SharedLimit limit = settled_by(thread, reserved);
  Request request{.key = thread.arena->copy(reserved.key),
                  .operation = is_more ? Operation::kCharge : Operation::kRefund,
                  .cost = is_more ? actual - reserved.cost : reserved.cost - actual,
                  .giver = reserved.giver};
  const std::chrono::nanoseconds age(now - reserved.asked_at);
  if (!is_more) {
    reserved.counted_for.restrict_refund(request, age);
    Space& space = *limit->bound_for(reserved.key).space;
    const bool was_reset =
        WaitQueues::of(space)->callers().was_reset(reserved.key, reserved.wakings);
    if (was_reset) request.cost = 0;
  }
  ask(context, limit, request,
      {.form = Form::kCommit, .reserved = std::move(reserved), .commit = std::move(commit)});
}

void run_acquire(RequestContext& context) {
  const json::value body = parse_body(context.thread, context.message);
  Members members(body);
  const std::string_view limit = members.text("limit");
  const Request request{.key = members.text("key"), .permit = new_permit_id()};
  members.end();
  ask(context, find_limit(context.thread, limit), request,
      {.form = Form::kPermit, .style = style_of(context), .permit = request.permit});
}

void run_of_permit(RequestContext& context, Operation operation) {
  const json::value body = parse_body(context.thread, context.message);
  Members members(body);
  const std::string_view limit = members.text("limit");
  Request request{.key = members.text("key"), .operation = operation};
  if (!read_permit(members.text("permit"), request.permit, request.giver)) {
    members.refuse("the member \"permit\" is no permit: /v1/permits/acquire gives one");
  }
  members.end();
  ask(context, find_limit(context.thread, limit), request,
      {.form = Form::kHeld, .permit = request.permit, .giver = request.giver});
}

}  // namespace sluice::http
