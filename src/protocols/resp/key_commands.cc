#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/arithmetic.h"
#include "protocols/resp/command_functions.h"
#include "protocols/resp/commands.h"
#include "protocols/resp/integer_argument.h"
#include "protocols/resp/words.h"

namespace sluice::resp {
namespace {

constexpr std::size_t kWithQuantity = 6;

// Reads the numbers of a bucket, and the quantity if there is one.
bool read_throttle(CommandContext& context, Arguments arguments, ThrottleNumbers& numbers,
                   std::int64_t& quantity) {
  return read_integer(context, {"max_burst", arguments[2]}, numbers.max_burst) &&
         read_integer(context, {"count", arguments[3]}, numbers.count) &&
         read_integer(context, {"period", arguments[4]}, numbers.period_s) &&
         (arguments.size() != kWithQuantity ||
          read_integer(context, {"quantity", arguments[5]}, quantity));
}

// If the server answers for named limits only, replies so and returns false.
bool may_bring_numbers(CommandContext& context) {
  if (context.thread.context.limits.answers_expressions()) return true;
  context.reply().error("ERR this server answers named limits only");
  return false;
}

void throttle(CommandContext& context, const ThrottleNumbers& numbers, Arguments arguments,
              std::int64_t quantity, Form form) {
  if (!may_bring_numbers(context)) return;
  ThrottleLimits& limits = context.thread.throttle_limits;
  const std::shared_ptr<const VaryingLimit>* limit = limits.find(numbers);
  if (limit == nullptr) {
    if (const auto wrong = find_error(numbers)) return context.reply().error(*wrong);
    limit = &limits.make(numbers);
  }
  Request request = (*limit)->request(arguments[1]);
  request.cost = quantity;
  if (quantity < 0) {
    // A negative quantity returns units, as SLUICE.REFUND does.
    if (!context.peer.access.identity().may(kAdminRole)) {
      return refuse_command(context, in_small_letters(arguments[0]));
    }
    request.operation = Operation::kRefund;
    // -2^63 has no positive counterpart, and no bucket has that many units.
    request.cost = quantity < -kMaxInt64 ? kMaxInt64 : -quantity;
  }
  context.thread.context.batch.add_bound(request, {.tag = tag_of(form)}, *limit);
}

constexpr std::string_view kIncrexForm =
    "INCREX is a limiter: INCREX key [BYINT n] UBOUND limit EX s|PX ms ENX [SATURATE]";

/// The options of an INCREX.
struct Increase {
  std::optional<std::int64_t> by;
  std::optional<std::int64_t> bound;
  std::optional<std::int64_t> period_ns;
  bool keeps_expiry = false;
  bool saturates = false;
};

/// Reads the options of an INCREX, in any order, each at most once.
class IncrexOptions {
 public:
  explicit IncrexOptions(CommandContext& context) : context_(context) {}

  /// If the options are not those of a limiter, replies why and returns false.
  bool read(Arguments options, Increase& to) {
    while (!options.empty()) {
      const std::string_view name = options[0];
      const bool has_number = options.size() > 1;
      std::size_t read = 1;
      if (is_word(name, "ENX") && !to.keeps_expiry) {
        to.keeps_expiry = true;
      } else if (is_word(name, "SATURATE") && !to.saturates) {
        to.saturates = true;
      } else if (const Number* number = find(name); number != nullptr && has_number) {
        // EX and PX are one.
        const bool is_period = number->to == &Increase::period_ns;
        const std::string_view what = is_period ? "the period" : number->name;
        if (to.*(number->to)) return refuse(std::string(what) + " has been given before");
        if (!read_number(*number, options[1], to)) return false;
        read = 2;
      } else {
        return refuse("not with " + quoted(name) + (number != nullptr ? " alone" : " here"));
      }
      options = options.subspan(read);
    }
    if (!to.bound) return refuse("UBOUND is missing");
    if (!to.period_ns) return refuse("EX or PX is missing");
    if (!to.keeps_expiry) return refuse("ENX is missing: a period begins with its first unit");
    return true;
  }

 private:
  struct Number {
    std::string_view name;
    IntegerRange range;
    std::int64_t unit;
    std::optional<std::int64_t> Increase::*to;
  };

  static const Number* find(std::string_view name) {
    static constexpr std::array kNumbers = std::to_array<Number>(
        {{"BYINT", {0, kMaxInt64}, 1, &Increase::by},
         {"UBOUND", {1, kMaxCount}, 1, &Increase::bound},
         {"EX", {1, kMaxDurationNs / kSecondNs}, kSecondNs, &Increase::period_ns},
         {"PX", {1, kMaxDurationNs / kMillisecondNs}, kMillisecondNs, &Increase::period_ns}});
    for (const Number& number : kNumbers) {
      if (is_word(name, number.name)) return &number;
    }
    return nullptr;
  }

  bool read_number(const Number& number, std::string_view text, Increase& to) {
    std::int64_t value = 0;
    if (!read_integer(context_, {number.name, text}, number.range, value)) return false;
    to.*(number.to) = value * number.unit;
    return true;
  }

  bool refuse(const std::string& why) {
    context_.reply().error("ERR " + std::string(kIncrexForm) + ", and " + why);
    return false;
  }

  CommandContext& context_;
};

}  // namespace

void run_cl_throttle(CommandContext& context, Arguments arguments) {
  if (arguments.size() > kWithQuantity) {
    return refuse_arguments(context, in_small_letters(arguments[0]));
  }
  ThrottleNumbers numbers;
  std::int64_t quantity = 1;
  if (!read_throttle(context, arguments, numbers, quantity)) return;
  throttle(context, numbers, arguments, quantity, Form::kThrottle);
}

// max_burst is the capacity here; in CL.THROTTLE the capacity is one more.
void run_throttle(CommandContext& context, Arguments arguments) {
  if (arguments.size() > kWithQuantity) return refuse_arguments(context, "throttle");
  ThrottleNumbers numbers;
  std::int64_t quantity = 1;
  if (!read_throttle(context, arguments, numbers, quantity)) return;
  if (numbers.max_burst < 1) return context.reply().error("ERR max_burst must be at least 1");
  if (quantity < 0) return context.reply().error("ERR quantity must be at least 0");
  --numbers.max_burst;
  throttle(context, numbers, arguments, quantity, Form::kAllowed);
}

void run_increx(CommandContext& context, Arguments arguments) {
  const bool lacks_room = context.room == 0;  // Not where it is run again.
  context.peer.resume_at = 0;
  if (!may_bring_numbers(context)) return;
  Increase increase;
  if (!IncrexOptions(context).read(arguments.subspan(2), increase)) return;
  const std::int64_t by = increase.by.value_or(1);
  const IncrexLimit& limit = context.thread.increx_limits.find(
      {.bound = *increase.bound, .period_ns = *increase.period_ns});
  // Of a count above the bound, the decision does not tell how much it is.
  const bool needs_peek = limit.period->most > *increase.bound;
  if (needs_peek && lacks_room) return context.go_on_later(1);
  DecisionBatch& batch = context.thread.context.batch;
  if (needs_peek) {
    --context.room;
    const auto& widest = limit.period->widest;
    Request peek = widest->request(arguments[1]);
    peek.cost = 0;
    batch.add_bound(peek, {.tag = tag_of(Form::kTotal)}, widest);
  }
  Request request = limit.limit->request(arguments[1]);
  request.cost = by;
  const bool takes_what_there_is = increase.saturates && by > 0;
  if (takes_what_there_is) request.operation = Operation::kTakeUpTo;
  const std::uint32_t tag =
      context.replies.tag_with(Form::kCount, {.number = takes_what_there_is ? 0 : by});
  batch.add_bound(request, {.tag = tag}, limit.limit);
}

// Looks for each key's state in each space where it can be, and forgets it.
void run_del(CommandContext& context, Arguments arguments) {
  DecisionBatch& batch = context.thread.context.batch;
  const auto increx = context.thread.shared->increx_periods.all();
  const std::size_t requests = 2 * (1 + increx.size());
  static_assert(2 * (1 + IncrexPeriods::kMaxPeriods) < DecisionBatch::kMaxRequests);
  const auto forget = [&](const std::shared_ptr<const VaryingLimit>& limit, std::string_view key,
                          Form form) {
    Request request = limit->request(key);
    request.cost = 0;
    batch.add_bound(request, {.tag = tag_of(Form::kState)}, limit);
    request.cost = 1;
    request.operation = Operation::kReset;
    batch.add_bound(request, {.tag = tag_of(form)}, limit);
  };
  for (std::size_t i = std::max<std::size_t>(1, context.peer.resume_at); i < arguments.size();
       ++i) {
    if (context.room < requests) return context.go_on_later(i);
    context.room -= requests;
    for (const auto& period : increx) forget(period.widest, arguments[i], Form::kForget);
    forget(context.thread.throttle_limits.any(), arguments[i],
           i + 1 < arguments.size() ? Form::kKeyGone : Form::kAllGone);
  }
  context.peer.resume_at = 0;
}

}  // namespace sluice::resp
