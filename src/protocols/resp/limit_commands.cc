#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "protocols/resp/command_functions.h"
#include "protocols/resp/commands.h"
#include "protocols/resp/integer_argument.h"
#include "protocols/resp/words.h"
#include "service/misfit.h"
#include "service/permit_text.h"
#include "waiting/requests.h"

namespace sluice::resp {
namespace {

using SharedLimit = std::shared_ptr<const RegisteredLimit>;

// The limit of this name or expression. Throws as LimitRegistry::find().
const SharedLimit& find_limit(CommandContext& context, std::string_view text) {
  return context.thread.context.limits.find(text);
}

// Why a limit cannot carry out this request; empty if it can.
std::string refuse_operation(const LimitDefinition& limit, const Request& request) {
  switch (misfit_of(limit, request)) {
    case Misfit::kNone:
      break;
    case Misfit::kNoPermits:
      return "'" + limit.space +
             "' lends no permits, as a concurrency limit does: SLUICE.CHECK takes units from it";
    case Misfit::kPermits:
      return "'" + limit.space +
             "' lends permits: SLUICE.ACQUIRE takes one, and SLUICE.RELEASE gives it back";
  }
  return {};
}

// Adds a request to the batch, or replies why it cannot.
void ask(CommandContext& context, const SharedLimit& limit, const Request& request,
         std::uint32_t tag) {
  const std::string refusal = refuse_operation(limit->limit.definition(), request);
  if (!refusal.empty()) return context.reply().error("ERR " + refusal);
  context.thread.context.batch.add(limit, request, {.tag = tag});
}

// The same, for the limit whose name or expression is arguments[1].
void ask(CommandContext& context, Arguments arguments, const Request& request, Form form) {
  ask(context, find_limit(context, arguments[1]), request, tag_of(form));
}

constexpr IntegerRange kUnits{.least = 0, .most = kMaxInt64};

}  // namespace

void run_of_units(CommandContext& context, Arguments arguments, Operation operation, Form form) {
  constexpr std::size_t kWithUnits = 4;
  if (arguments.size() > kWithUnits) {
    return refuse_arguments(context, in_small_letters(arguments[0]));
  }
  const char* const name = operation == Operation::kTake ? "cost" : "n";
  // First: without its quotes, an expression is cut at its blanks, and what follows is no number.
  const SharedLimit& limit = find_limit(context, arguments[1]);
  Request request{.key = arguments[2], .operation = operation};
  if (arguments.size() == kWithUnits &&
      !read_integer(context, {name, arguments[3]}, kUnits, request.cost)) {
    return;
  }
  ask(context, limit, request, tag_of(form));
}

void run_of_permit(CommandContext& context, Arguments arguments, Operation operation) {
  Request request{.key = arguments[2], .operation = operation};
  if (!read_permit(arguments[3], request.permit, request.giver)) {
    return context.reply().error("ERR this is no permit: SLUICE.ACQUIRE replies with one");
  }
  ask(context, arguments, request, Form::kHeld);
}

void run_sluice_peek(CommandContext& context, Arguments arguments) {
  ask(context, arguments, {.key = arguments[2], .cost = 0}, Form::kCheck);
}

void run_sluice_block(CommandContext& context, Arguments arguments) {
  constexpr IntegerRange kDuration{.least = 1, .most = kMaxDurationNs / kMillisecondNs};
  std::int64_t duration_ms = 0;
  if (!read_integer(context, {"ms", arguments[3]}, kDuration, duration_ms)) return;
  ask(context, arguments,
      {.key = arguments[2],
       .operation = Operation::kBlock,
       .duration_ns = duration_ms * kMillisecondNs},
      Form::kCheck);
}

void run_sluice_reset(CommandContext& context, Arguments arguments) {
  Request request{.key = arguments[2], .operation = Operation::kReset};
  if (arguments[1] != kThrottleSpace) return ask(context, arguments, request, Form::kDone);
  const auto& limit = context.thread.throttle_limits.any();
  request = limit->request(arguments[2]);
  request.operation = Operation::kReset;
  context.thread.context.batch.add_bound(request, {.tag = tag_of(Form::kDone)}, limit);
}

void run_sluice_acquire(CommandContext& context, Arguments arguments) {
  const SharedLimit& limit = find_limit(context, arguments[1]);
  const Request request{.key = arguments[2], .permit = new_permit_id()};
  ask(context, limit, request,
      context.replies.tag_with(
          Form::kPermit, {.number = lease_ms(limit->bound_for(arguments[2]).limit.definition()),
                          .permit = request.permit,
                          .protocol = context.peer.protocol}));
}

// The batch has only these requests, since they are decided together.
void run_sluice_checkall(CommandContext& context, Arguments arguments) {
  constexpr IntegerRange kClaims{.least = 1, .most = kMaxTogether};
  constexpr std::size_t kEach = 3;
  std::int64_t claims = 0;
  if (!read_integer(context, {"n", arguments[1]}, kClaims, claims)) return;
  arguments = arguments.subspan(2);
  if (arguments.size() != static_cast<std::size_t>(claims) * kEach) {
    return context.reply().error("ERR n must be the number of claims: limit key cost");
  }
  DecisionBatch& batch = context.thread.context.batch;
  if (context.waits_for_decisions()) return;
  std::array<SharedLimit, kMaxTogether> limits;
  std::array<Request, kMaxTogether> requests;
  for (std::size_t i = 0; i < static_cast<std::size_t>(claims); ++i) {
    limits[i] = find_limit(context, arguments[kEach * i]);
    requests[i].key = arguments[kEach * i + 1];
    if (!read_integer(context, {"cost", arguments[kEach * i + 2]}, kUnits, requests[i].cost)) {
      return;
    }
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(claims); ++i) {
    batch.add(limits[i], requests[i], {.tag = tag_of(Form::kAll)});
  }
  batch.ask_together();
}

void run_sluice_limits(CommandContext& context, Arguments) {
  constexpr std::size_t kFields = 4;
  if (context.waits_for_decisions()) return;
  const auto limits = context.thread.server->limits();
  Writer reply = context.reply();
  reply.array(limits.size());
  for (const LimitCount& limit : limits) {
    reply.array(kFields);
    reply.bulk(limit.name);
    reply.bulk(limit.expression);
    reply.integer(static_cast<std::int64_t>(limit.allowed));
    reply.integer(static_cast<std::int64_t>(limit.denied));
  }
}

void run_sluice_top(CommandContext& context, Arguments arguments) {
  constexpr std::size_t kWithNumber = 3;
  constexpr IntegerRange kKeys{.least = 1, .most = ServerContext::kMaxTop};
  if (arguments.size() > kWithNumber) return refuse_arguments(context, "sluice.top");
  if (context.waits_for_decisions()) return;
  std::int64_t most = ServerContext::kUsualTop;
  if (arguments.size() == kWithNumber && !read_integer(context, {"n", arguments[2]}, kKeys, most)) {
    return;
  }
  const auto rows = context.thread.server->top(arguments[1], static_cast<std::size_t>(most));
  Writer reply = context.reply();
  reply.array(rows.size());
  for (const KeyCount& row : rows) {
    reply.array(3);
    reply.bulk(row.key);
    reply.integer(static_cast<std::int64_t>(row.count));
    reply.integer(static_cast<std::int64_t>(row.error));
  }
}

}  // namespace sluice::resp
