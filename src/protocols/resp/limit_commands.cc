#include <string>

#include "core/arithmetic.h"
#include "protocols/resp/command.h"
#include "protocols/resp/number.h"

namespace sluice::resp {
namespace {

// Reads an integer argument, or replies that it is none.
bool read_integer(Turn& turn, std::string_view text, std::string_view argument, std::int64_t& to) {
  const auto number = parse_integer(text);
  if (!number) {
    turn.reply().error("ERR " + std::string(argument) + " is not an integer or out of range");
    return false;
  }
  to = *number;
  return true;
}

void refuse_arguments(Turn& turn, std::string_view command) {
  turn.reply().error("ERR wrong number of arguments for '" + std::string(command) + "' command");
}

// Finds the limit that arguments[1] means and asks the store about the key in arguments[2].
void ask(Turn& turn, Arguments arguments, Request request, Form form) {
  const BoundLimit* bound = nullptr;
  try {
    bound = turn.desk().book.find(arguments[1]);
  } catch (const InvalidLimit& error) {
    return turn.reply().error(std::string("ERR ") + error.what());
  } catch (const StoreError& error) {
    return turn.reply().error(std::string("ERR ") + error.what());
  }
  const LimitDefinition& limit = bound->limit.definition();
  if (request.operation == Operation::kTake && request.cost > 0 && lends(limit)) {
    return turn.reply().error("ERR '" + limit.space +
                              "' lends permits, which a ConcurrencyLimiter acquires (C++): "
                              "here it can be peeked at and reset");
  }
  request.limit = &limit;
  request.space = bound->space.get();
  request.key = arguments[2];
  turn.decide(request, form, bound->space);
}

}  // namespace

void run_cl_throttle(Turn& turn, Arguments arguments) {
  constexpr std::size_t kWithQuantity = 6;
  if (arguments.size() > kWithQuantity) return refuse_arguments(turn, "cl.throttle");
  ThrottleNumbers numbers;
  std::int64_t quantity = 1;
  if (!read_integer(turn, arguments[2], "max_burst", numbers.max_burst) ||
      !read_integer(turn, arguments[3], "count", numbers.count) ||
      !read_integer(turn, arguments[4], "period", numbers.period_s) ||
      (arguments.size() == kWithQuantity &&
       !read_integer(turn, arguments[5], "quantity", quantity))) {
    return;
  }
  ThrottleLimits& limits = turn.desk().throttle_limits;
  const LimitDefinition* limit = nullptr;
  try {
    limit = limits.find(numbers);
  } catch (const StoreError& error) {
    return turn.reply().error(std::string("ERR ") + error.what());
  }
  if (limit == nullptr) return turn.reply().error(*find_fault(numbers));

  const std::shared_ptr<Space>& space = limits.space();
  Request request{.limit = limit, .space = space.get(), .key = arguments[1], .cost = quantity};
  if (quantity < 0) {
    request.operation = Operation::kRefund;
    // -2^63 has no positive counterpart, and no bucket has that many units to be given back.
    request.cost = quantity < -kMaxInt64 ? kMaxInt64 : -quantity;
  }
  turn.decide(request, Form::kThrottle, space);
}

void run_sluice_check(Turn& turn, Arguments arguments) {
  constexpr std::size_t kWithCost = 4;
  if (arguments.size() > kWithCost) return refuse_arguments(turn, "sluice.check");
  Request request;
  if (arguments.size() == kWithCost) {
    if (!read_integer(turn, arguments[3], "cost", request.cost)) return;
    if (request.cost < 0) return turn.reply().error("ERR cost must be at least 0");
  }
  ask(turn, arguments, request, Form::kCheck);
}

void run_sluice_peek(Turn& turn, Arguments arguments) {
  Request request;
  request.cost = 0;
  ask(turn, arguments, request, Form::kCheck);
}

void run_sluice_reset(Turn& turn, Arguments arguments) {
  Request request;
  request.operation = Operation::kReset;
  ask(turn, arguments, request, Form::kDone);
}

}  // namespace sluice::resp
