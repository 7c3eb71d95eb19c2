#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "algorithms/limit_definition.h"
#include "core/store.h"

namespace sluice::redis {

/// What script.lua and C++ tell each other about one part of a limit. Each algorithm's Lua says
/// what its numbers mean; a row for each algorithm stands at the end.

/// Whole numbers up to here are exact in Lua, and so is a sum of two of them.
inline constexpr std::int64_t kMaxExact = std::int64_t{1} << 53;

inline std::int64_t read_int64(const char* bytes) {
  std::int64_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

inline void append_int64(std::string& output, std::int64_t value) {
  output.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// An instant that a state may name: a bucket in debt reaches beyond the end of time.
inline bool read_instant(const char* bytes, Instant& instant, Instant last = kEndOfTime) {
  instant = read_int64(bytes);
  return instant >= 0 && instant <= last;
}

/// A count that was written as a double; false where it is no count.
inline bool read_count(const char* bytes, std::int64_t& count) {
  double value = 0;
  std::memcpy(&value, bytes, sizeof value);
  if (!(value >= 0 && value <= static_cast<double>(kMaxExact))) return false;
  count = static_cast<std::int64_t>(value);
  return static_cast<double>(count) == value;
}

/// The numbers of a question to one part.
struct PartQuestion {
  std::uint8_t kind = 0;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  double c = 0;
  double d = 0;
  /// Follows where it is not 0.
  std::int64_t step_ns = 0;
  /// The most slots that a ring may come to; 0 for all others.
  std::int64_t slots = 0;
};

/// What is asked of a part: its operation's numbers, and an instant near the one at which it will
/// be judged.
struct PartCall {
  Operation operation = Operation::kTake;
  std::int64_t cost = 1;
  /// Of kTake alone.
  std::int64_t patience_ns = kDefaultPatience;
  Instant near = 0;
  PermitId permit = 0;
};

inline std::uint64_t as_word(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

inline double counted_cost(const PartCall& call) {
  return static_cast<double>(std::min(call.cost, kMaxExact));
}

/// The sum up to which a cost is admitted by a limit: a charge always is.
inline double room(const PartCall& call, std::int64_t limit) {
  if (call.operation == Operation::kCharge) return std::numeric_limits<double>::infinity();
  return static_cast<double>(limit - std::min(call.cost, kMaxExact));
}

inline std::int64_t add_saturated(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMaxInt64 : sum;
}

struct BucketCodec {
  static constexpr std::size_t kStateBytes = 8;
  static void write_numbers(const BucketParams&, std::string&) {}
  static bool read(const char* bytes, BucketState& state) {
    return read_instant(bytes, state.tat_ns, kMaxInt64);
  }

 protected:
  /// `ahead_ns`: how far ahead of now the state may lie; below 0 where it never may.
  static PartQuestion ask(const BucketParams& params, const PartCall& call, std::int64_t ahead_ns) {
    const auto spent_ns = checked_multiply(call.cost, params.interval_ns());
    const bool never = !spent_ns || ahead_ns < 0;
    return {.kind = 1,
            .a = never ? std::uint64_t{1} << 63 : as_word(*spent_ns),
            .b = as_word(std::max<std::int64_t>(0, ahead_ns)),
            .c = static_cast<double>(params.tolerance_ns)};
  }

  static bool takes(const PartCall& call) {
    return call.operation == Operation::kTake || call.operation == Operation::kTakeUpTo;
  }
  /// Whatever there is is charged, and what is given back is as much as is there at most.
  static PartQuestion ask_always(const BucketParams& params, const PartCall& call) {
    const auto spent_ns = checked_multiply(call.cost, params.interval_ns());
    return {.kind = 1,
            .a = as_word(spent_ns.value_or(kMaxInt64)),
            .b = as_word(kMaxInt64),
            .c = static_cast<double>(params.tolerance_ns)};
  }
};

/// letter() names the algorithm in a value, write_numbers() appends what has to be equal for its
/// state to be kept (together what keeps_state() compares); kStateBytes is how long the state is in
/// the head, read() reads it (false where it is damaged); ask() makes the question.
template <class A>
struct PartCodec;

template <>
struct PartCodec<TokenBucket> : BucketCodec {
  static constexpr char letter(const TokenBucket::Params&) { return 't'; }
  static PartQuestion ask(const TokenBucket::Params& params, const PartCall& call) {
    if (!takes(call)) return ask_always(params, call);
    const std::int64_t patience_ns = std::max<std::int64_t>(0, call.patience_ns);
    if (params.borrow && call.operation == Operation::kTake) {
      return BucketCodec::ask(params, call, add_saturated(params.tolerance_ns, patience_ns));
    }
    if (call.cost > params.burst) return BucketCodec::ask(params, call, -1);
    const std::int64_t left_ns = params.tolerance_ns - call.cost * params.interval_ns();
    return BucketCodec::ask(params, call, add_saturated(left_ns, patience_ns));
  }
};

template <>
struct PartCodec<LeakyBucket> : BucketCodec {
  static constexpr char letter(const LeakyBucket::Params&) { return 'l'; }
  static PartQuestion ask(const LeakyBucket::Params& params, const PartCall& call) {
    if (!takes(call)) return ask_always(params, call);
    if (call.cost > params.burst) return BucketCodec::ask(params, call, -1);
    const std::int64_t left_ns = params.tolerance_ns - call.cost * params.interval_ns();
    if (call.patience_ns == kDefaultPatience) return BucketCodec::ask(params, call, left_ns);
    return BucketCodec::ask(params, call, std::min(left_ns, call.patience_ns));
  }
};

template <>
struct PartCodec<FixedWindow> {
  static constexpr std::size_t kStateBytes = 16;
  static constexpr char letter(const FixedWindow::Params& params) {
    return params.first ? 'a' : 'f';
  }
  static void write_numbers(const FixedWindow::Params& params, std::string& output) {
    append_int64(output, params.window_ns());
  }
  static bool read(const char* bytes, FixedWindow::State& state) {
    return read_instant(bytes, state.start_ns) && read_count(bytes + 8, state.count);
  }
  static PartQuestion ask(const FixedWindow::Params& params, const PartCall& call) {
    return {.kind = 2,
            .a = as_word(params.window_ns()),
            .b = params.first ? ~std::uint64_t{0}
                              : as_word(params.window.divide(call.near) * params.window_ns()),
            .c = counted_cost(call),
            .d = room(call, params.limit)};
  }
};

template <>
struct PartCodec<SlidingCounter> {
  static constexpr std::size_t kStateBytes = 24;
  static constexpr char letter(const SlidingCounter::Params&) { return 'c'; }
  static void write_numbers(const SlidingCounter::Params& params, std::string& output) {
    append_int64(output, params.window_ns());
  }
  static bool read(const char* bytes, SlidingCounter::State& state) {
    return read_instant(bytes, state.start_ns) && read_count(bytes + 8, state.current) &&
           read_count(bytes + 16, state.previous);
  }
  /// How it was before the request took so much of what it asks for. False where it has not: the
  /// state is damaged.
  static bool go_back(SlidingCounter::State& state, std::int64_t taken) {
    state.current -= taken;
    return state.current >= 0;
  }
  static PartQuestion ask(const SlidingCounter::Params& params, const PartCall& call) {
    return {.kind = 3,
            .a = as_word(params.window_ns()),
            .b = as_word(params.window.divide(call.near) * params.window_ns()),
            .c = counted_cost(call),
            .d = bound(call, params.limit)};
  }

 private:
  static double bound(const PartCall& call, std::int64_t limit) {
    if (call.operation == Operation::kCharge) return std::numeric_limits<double>::infinity();
    if (call.operation != Operation::kRefund) return static_cast<double>(limit);
    const std::int64_t beyond = call.cost - std::min(call.cost, kMaxExact);
    return static_cast<double>(std::min(beyond, kMaxExact));
  }
};

/// What the script answers of a ring: a smaller ring that decides alike.
struct RingAnswer {
  std::int64_t counted = 0;
  Instant newest_ns = 0;
  /// The last stamp to go before what was denied is admitted, or the newest that a refund leaves.
  Instant edge_ns = 0;
  RingEntry entries[2] = {};

  bool read(const char* bytes) {
    return read_count(bytes, counted) && read_instant(bytes + 8, newest_ns) &&
           read_instant(bytes + 16, edge_ns) && edge_ns <= newest_ns;
  }

  /// Refers to this.
  Ring ring(const PartCall& call, std::int64_t limit) {
    if (counted == 0) return {};
    std::int64_t up_to_edge = counted;
    if (call.operation == Operation::kRefund) {
      up_to_edge = counted - std::min(counted, call.cost);
    } else if (call.cost <= limit) {
      up_to_edge = counted - (limit - call.cost);
    }
    Ring ring{.slots = entries, .capacity = 2};
    if (edge_ns < newest_ns && up_to_edge > 0 && up_to_edge < counted) {
      entries[ring.size++] = {edge_ns, static_cast<std::uint64_t>(up_to_edge)};
    }
    entries[ring.size++] = {newest_ns, static_cast<std::uint64_t>(counted)};
    return ring;
  }
};

template <>
struct PartCodec<SlidingLog> {
  static constexpr std::size_t kStateBytes = 52;
  static constexpr char letter(const SlidingLog::Params&) { return 'g'; }
  static void write_numbers(const SlidingLog::Params& params, std::string& output) {
    append_int64(output, params.window_ns);
  }
  static PartQuestion ask(const SlidingLog::Params& params, const PartCall& call) {
    // The newest entry stands in no slot.
    const std::int64_t slots =
        (call.operation == Operation::kCharge ? most_entries(params.limit) : params.limit) - 1;
    return {.kind = 4,
            .a = as_word(params.window_ns),
            .b = as_word(slots),
            .c = counted_cost(call),
            .d = room(call, params.limit),
            .slots = params.limit - 1};
  }
};

template <>
struct PartCodec<SlidingWindow> {
  static constexpr std::size_t kStateBytes = 52;
  static constexpr char letter(const SlidingWindow::Params&) { return 'w'; }
  static void write_numbers(const SlidingWindow::Params& params, std::string& output) {
    append_int64(output, params.window_ns);
    append_int64(output, params.precision_ns());
  }
  static PartQuestion ask(const SlidingWindow::Params& params, const PartCall& call) {
    return {.kind = 5,
            .a = as_word(params.lifetime_ns),
            .b = as_word(params.precision.divide(call.near) * params.precision_ns()),
            .c = counted_cost(call),
            .d = room(call, params.limit),
            .step_ns = params.precision_ns(),
            .slots = params.precision.divide(params.lifetime_ns)};
  }
};

/// What the script answers of permits: what Concurrency::answer() needs.
inline bool read_held(const char* bytes, Concurrency::Held& held) {
  return read_count(bytes, held.count) && read_instant(bytes + 8, held.room_ns, kMaxInt64) &&
         read_instant(bytes + 16, held.last_ns, kMaxInt64);
}

template <>
struct PartCodec<Concurrency> {
  static constexpr std::size_t kStateBytes = 0;
  static constexpr char letter(const Concurrency::Params&) { return 'p'; }
  static void write_numbers(const Concurrency::Params&, std::string&) {}
  static PartQuestion ask(const Concurrency::Params& params, const PartCall& call) {
    return {.kind = 6,
            .a = as_word(params.lease_ns),
            .b = call.permit,
            .c = counted_cost(call),
            .d = static_cast<double>(params.limit)};
  }
};

/// Of a ring or of permits, which have no fixed size, the script answers so many bytes in place of
/// the state.
template <class A>
inline constexpr bool kIsSummed = kIsRing<A> || LendingAlgorithm<A>;
inline constexpr std::size_t kSumBytes = 24;

/// The last part of what asks for a block.
inline PartQuestion ask_block(std::int64_t duration_ns) {
  return {.kind = 7, .a = as_word(duration_ns)};
}

}  // namespace sluice::redis
