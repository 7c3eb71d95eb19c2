#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "algorithms/limit_definition.h"
#include "core/store.h"

namespace sluice::redis {

/// The format in which C++ and script.lua exchange the numbers and the state of one part of a
/// limit: one PartCodec for each algorithm. The Lua of each algorithm says what the numbers mean.

/// Integers up to this number are exact in Lua.
inline constexpr std::int64_t kMaxExact = std::int64_t{1} << 53;

inline std::int64_t read_int64(const char* bytes) {
  std::int64_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// An instant that a state may name: a bucket in debt reaches beyond the end of time.
inline bool read_instant(const char* bytes, Instant& instant, Instant last = kEndOfTime - 1) {
  instant = read_int64(bytes);
  return instant >= 0 && instant <= last;
}

/// Reads a count that was written as a double; false if it is not a count.
inline bool read_count(const char* bytes, std::int64_t& count) {
  double value = 0;
  std::memcpy(&value, bytes, sizeof value);
  if (!(value >= 0 && value <= static_cast<double>(kMaxExact))) return false;
  count = static_cast<std::int64_t>(value);
  return static_cast<double>(count) == value;
}

/// Appends plain values, as the script unpacks them.
template <class... Values>
void put(std::string& output, const Values&... values) {
  std::array<char, (sizeof(Values) + ...)> bytes;
  char* at = bytes.data();
  ((std::memcpy(at, &values, sizeof values), at += sizeof values), ...);
  output.append(bytes.data(), bytes.size());
}

/// The three instants at the end of a head, of which the last two are in whole kInstantUnitNs: see
/// script.lua.
inline constexpr std::size_t kInstantsBytes = 16;
inline constexpr std::int64_t kInstantUnitNs = std::int64_t{1} << 30;

/// Added to the kind of a part to which a refund returns nothing: see Request::uncounted_parts.
inline constexpr std::uint8_t kUncounted = 128;

/// One part of a request, as the script unpacks it.
struct PartArguments {
  std::uint8_t kind = 0;
  std::int64_t a = 0;
  std::int64_t b = 0;
  double d = 0;
  /// Follows where it is not 0.
  std::int64_t step_ns = 0;
};

/// The sum of units up to which a request is admitted.
inline double bound(const Request& request, std::int64_t limit) {
  if (request.operation == Operation::kCharge) return std::numeric_limits<double>::infinity();
  return static_cast<double>(limit);
}

/// The start of the window or sub-window that `guess` lies in.
inline std::int64_t window_start(const Divider& window, Instant guess) {
  return window.divide(guess) * window.divisor();
}

/// letter() names the algorithm in a value; write_numbers() appends the numbers under which its
/// state may be kept (together what state_kind() says); kStateBytes is how long the state is
/// in the head, and read() reads it (false where it is damaged); ask() makes the arguments, given
/// an instant near the one at which the script will decide.
template <class A>
struct PartCodec;

struct BucketCodec {
  static constexpr std::size_t kStateBytes = 8;
  static void write_numbers(const BucketParams&, std::string&) {}
  static bool read(const char* bytes, BucketState& state) {
    return read_instant(bytes, state.tat_ns, kMaxInt64);
  }

 protected:
  /// What a full bucket has left after `cost`; nothing if it holds less than that.
  static std::optional<std::int64_t> left_ns(const BucketParams& params, std::int64_t cost) {
    if (cost > params.burst) return std::nullopt;
    return params.tolerance_ns - cost * params.interval_ns();
  }

  /// `ahead_ns`: how far ahead of now the arrival time may lie for a take to be admitted; nothing
  /// if it never is.
  static PartArguments ask(const BucketParams& params, const Request& request,
                           std::optional<std::int64_t> ahead_ns) {
    constexpr auto kNoState = std::numeric_limits<std::int64_t>::min();  // 2^63 to the script

    PartArguments arguments{.kind = 1, .d = static_cast<double>(params.tolerance_ns)};
    const auto spent_ns = checked_multiply(request.cost, params.interval_ns());
    if (request.operation == Operation::kTakeUpTo) {
      arguments.a = params.interval_ns();
      arguments.b = params.tolerance_ns;
    } else if (request.operation == Operation::kTake) {
      arguments.a = spent_ns && ahead_ns ? *spent_ns : kNoState;
      arguments.b = ahead_ns.value_or(0);
    } else {
      arguments.a = spent_ns.value_or(kMaxInt64);
      arguments.b = kMaxInt64;
    }
    return arguments;
  }
};

template <>
struct PartCodec<TokenBucket> : BucketCodec {
  static constexpr char letter(const TokenBucket::Params&) { return 't'; }
  static PartArguments ask(const TokenBucket::Params& params, const Request& request, Instant) {
    auto ahead_ns =
        params.borrow ? std::optional(params.tolerance_ns) : left_ns(params, request.cost);
    const std::int64_t patience_ns = std::max<std::int64_t>(0, request.patience_ns);
    if (ahead_ns) *ahead_ns += std::min(patience_ns, kMaxInt64 - *ahead_ns);
    return BucketCodec::ask(params, request, ahead_ns);
  }
};

template <>
struct PartCodec<LeakyBucket> : BucketCodec {
  static constexpr char letter(const LeakyBucket::Params&) { return 'l'; }
  static PartArguments ask(const LeakyBucket::Params& params, const Request& request, Instant) {
    auto ahead_ns = left_ns(params, request.cost);
    if (ahead_ns && request.patience_ns != kDefaultPatience) {
      ahead_ns = std::min(*ahead_ns, request.patience_ns);
    }
    return BucketCodec::ask(params, request, ahead_ns);
  }
};

template <>
struct PartCodec<FixedWindow> {
  static constexpr std::size_t kStateBytes = 16;
  static constexpr char letter(const FixedWindow::Params& params) {
    return params.first ? 'a' : 'f';
  }
  static void write_numbers(const FixedWindow::Params& params, std::string& output) {
    put(output, params.window_ns());
  }
  static bool read(const char* bytes, FixedWindow::State& state) {
    return read_instant(bytes, state.start_ns) && read_count(bytes + 8, state.count);
  }
  static PartArguments ask(const FixedWindow::Params& params, const Request& request,
                           Instant guess) {
    return {.kind = 2,
            .a = params.window_ns(),
            .b = params.first ? -1 : window_start(params.window, guess),
            .d = bound(request, params.limit)};
  }
};

template <>
struct PartCodec<SlidingCounter> {
  static constexpr std::size_t kStateBytes = 24;
  static constexpr char letter(const SlidingCounter::Params&) { return 'c'; }
  static void write_numbers(const SlidingCounter::Params& params, std::string& output) {
    put(output, params.window_ns());
  }
  static bool read(const char* bytes, SlidingCounter::State& state) {
    return read_instant(bytes, state.start_ns) && read_count(bytes + 8, state.current) &&
           read_count(bytes + 16, state.previous);
  }
  static PartArguments ask(const SlidingCounter::Params& params, const Request& request,
                           Instant guess) {
    const std::int64_t beyond = request.cost - std::min(request.cost, kMaxExact);
    const bool refunds = request.operation == Operation::kRefund;
    return {.kind = 3,
            .a = params.window_ns(),
            .b = window_start(params.window, guess),
            .d = refunds ? static_cast<double>(std::min(beyond, kMaxExact))
                         : bound(request, params.limit)};
  }
};

template <>
struct PartCodec<SlidingLog> {
  static constexpr std::size_t kStateBytes = 52;
  static constexpr char letter(const SlidingLog::Params&) { return 'g'; }
  static void write_numbers(const SlidingLog::Params& params, std::string& output) {
    put(output, params.window_ns);
  }
  static PartArguments ask(const SlidingLog::Params& params, const Request& request, Instant) {
    const bool charges = request.operation == Operation::kCharge;
    // The newest entry stands in no slot.
    const std::int64_t slots = (charges ? most_entries(params.limit) : params.limit) - 1;
    return {.kind = 4, .a = params.window_ns, .b = slots, .d = bound(request, params.limit)};
  }
};

template <>
struct PartCodec<SlidingWindow> {
  static constexpr std::size_t kStateBytes = 52;
  static constexpr char letter(const SlidingWindow::Params&) { return 'w'; }
  static void write_numbers(const SlidingWindow::Params& params, std::string& output) {
    put(output, params.window_ns, params.precision_ns());
  }
  static PartArguments ask(const SlidingWindow::Params& params, const Request& request,
                           Instant guess) {
    return {.kind = 5,
            .a = params.lifetime_ns,
            .b = window_start(params.precision, guess),
            .d = bound(request, params.limit),
            .step_ns = params.precision_ns()};
  }
};

template <>
struct PartCodec<Concurrency> {
  static constexpr std::size_t kStateBytes = 0;
  static constexpr char letter(const Concurrency::Params&) { return 'p'; }
  static void write_numbers(const Concurrency::Params&, std::string&) {}
  static PartArguments ask(const Concurrency::Params& params, const Request& request, Instant) {
    return {.kind = 6,
            .a = params.lease_ns,
            .b = static_cast<std::int64_t>(request.permit),
            .d = static_cast<double>(params.limit)};
  }
};

/// A ring, or permits, have no fixed size: the script replies with a summary of so many bytes.
template <class A>
inline constexpr bool kIsSummed = kIsRing<A> || LendingAlgorithm<A>;
inline constexpr std::size_t kSummaryBytes = 24;

/// The summary of a ring: a smaller ring that decides alike.
struct RingSummary {
  std::int64_t counted = 0;
  Instant newest_ns = 0;
  /// The last stamp to go before what was denied is admitted, or the newest that a refund leaves.
  Instant edge_ns = 0;
  RingEntry entries[2] = {};

  bool read(const char* bytes) {
    return read_count(bytes, counted) && read_instant(bytes + 8, newest_ns) &&
           read_instant(bytes + 16, edge_ns) && edge_ns <= newest_ns;
  }

  /// Refers to this. `cost` is that of `operation`.
  Ring ring(Operation operation, std::int64_t cost, std::int64_t limit) {
    if (counted == 0) return {};
    std::int64_t up_to_edge = counted;
    if (operation == Operation::kRefund) {
      up_to_edge = counted - std::min(counted, cost);
    } else if (cost <= limit) {
      up_to_edge = counted - (limit - cost);
    }
    Ring ring{.slots = entries, .capacity = 2};
    if (edge_ns < newest_ns && up_to_edge > 0 && up_to_edge < counted) {
      entries[ring.size++] = {edge_ns, static_cast<std::uint64_t>(up_to_edge)};
    }
    entries[ring.size++] = {newest_ns, static_cast<std::uint64_t>(counted)};
    return ring;
  }
};

/// The summary of permits: what Concurrency::answer() needs.
inline bool read_held(const char* bytes, Concurrency::Held& held) {
  return read_count(bytes, held.count) && read_instant(bytes + 8, held.room_ns, kMaxInt64) &&
         read_instant(bytes + 16, held.last_ns, kMaxInt64);
}

}  // namespace sluice::redis
