#include "model/part.h"

#include <algorithm>
#include <limits>

namespace sluice::model {
namespace {

constexpr Wide kMost64 = std::numeric_limits<std::int64_t>::max();
constexpr Wide kMost53 = (Wide{1} << 53) - 1;

Wide ceil_div(Wide a, Wide b) {
  return (a + b - 1) / b;
}

std::string number(Wide value) {
  return std::to_string(static_cast<std::int64_t>(value));
}

std::int64_t narrow(Wide value) {
  return static_cast<std::int64_t>(value);
}

bool is_bucket(const ModelLimit& limit) {
  return limit.kind == Kind::kTokenBucket || limit.kind == Kind::kLeakyBucket;
}

}  // namespace

std::string ModelLimit::expression() const {
  const std::string rate = " " + number(count) + "/" + number(window_ns) + "ns";
  switch (kind) {
    case Kind::kFixedWindow:
      return "fixed_window" + rate + (anchor_first ? " anchor=first" : "");
    case Kind::kSlidingLog:
      return "sliding_log" + rate;
    case Kind::kSlidingWindow:
      return "sliding_window" + rate +
             (precision_ns ? " precision=" + number(*precision_ns) + "ns" : "") +
             (strict ? "" : " strict=no");
    case Kind::kSlidingCounter:
      return "sliding_counter" + rate;
    case Kind::kTokenBucket:
      return "token_bucket" + rate + (burst ? " burst=" + number(*burst) : "") +
             (borrow ? " borrow=yes" : "");
    case Kind::kLeakyBucket:
      return "leaky_bucket" + rate + " queue=" + number(queue);
    case Kind::kConcurrency:
      return "concurrency " + number(count) + " lease=" + number(window_ns) + "ns";
  }
  return "";
}

bool ModelLimit::definable() const {
  if (count < 1 || count > kMost53 || window_ns < 1 || window_ns > kMaxDurationNs) return false;
  switch (kind) {
    case Kind::kFixedWindow:
      return true;
    case Kind::kSlidingLog:
    case Kind::kConcurrency:
      return count <= 65'536;
    case Kind::kSlidingWindow:
      return sub_window_ns() >= 1 && sub_window_ns() <= window_ns && sub_windows() <= 1000 &&
             (sub_windows() + (strict ? 1 : 0)) * sub_window_ns() <= Wide{1} << 62;
    case Kind::kSlidingCounter:
      return window_ns <= kMost53 + 1;
    case Kind::kTokenBucket:
    case Kind::kLeakyBucket:
      return most() >= 1 && most() <= kMost53 && most() * interval_ns() <= kMaxDurationNs;
  }
  return false;
}

Wide ModelLimit::interval_ns() const {
  return ceil_div(window_ns, count);
}

Wide ModelLimit::most() const {
  if (kind == Kind::kTokenBucket) return burst.value_or(count);
  if (kind == Kind::kLeakyBucket) return Wide{queue} + 1;
  return count;
}

Wide ModelLimit::sub_window_ns() const {
  return precision_ns ? *precision_ns : ceil_div(window_ns, 10);
}

Wide ModelLimit::sub_windows() const {
  return ceil_div(window_ns, sub_window_ns());
}

PartState::Shape PartState::shape_of(const ModelLimit& limit) {
  if (is_bucket(limit)) return {limit.kind, 0, 0, false};
  const Wide sub_window = limit.kind == Kind::kSlidingWindow ? limit.sub_window_ns() : Wide{0};
  const bool first = limit.kind == Kind::kFixedWindow && limit.anchor_first;
  return {limit.kind, limit.window_ns, sub_window, first};
}

bool PartState::readable_under(const ModelLimit& limit) const {
  return !shape_ || *shape_ == shape_of(limit);
}

// anchor=first: the index of the newest window's first entry. A window starts at the first entry
// that is not inside the window before.
std::size_t PartState::first_window_begin() const {
  const Wide window = std::get<1>(*shape_);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < admitted_.size(); ++i) {
    if (admitted_[i].at >= admitted_[begin].at + window) begin = i;
  }
  return begin;
}

// Time never runs backwards for a key. Each entry was itself decided no earlier than the one before
// it, in whole windows, so the last entry says how far time has advanced.
Wide PartState::judged_at(const ModelLimit& limit, Wide now) const {
  if (is_bucket(limit) || admitted_.empty()) return now;
  const Wide last = admitted_.back().at;
  switch (limit.kind) {
    case Kind::kFixedWindow:
      if (limit.anchor_first) return std::max(now, admitted_[first_window_begin()].at);
      return std::max(now, last / limit.window_ns * limit.window_ns);
    case Kind::kSlidingCounter:
      return std::max(now, newest_ / limit.window_ns * limit.window_ns);
    case Kind::kSlidingWindow:
      return std::max(now, last / limit.sub_window_ns() * limit.sub_window_ns());
    default:
      return std::max(now, last);
  }
}

// The index of the oldest entry that counts at `at`; all later ones count too.
std::size_t PartState::first_counted(const ModelLimit& limit, Wide at) const {
  const Wide window = limit.window_ns;
  if (limit.kind == Kind::kFixedWindow && limit.anchor_first && !admitted_.empty()) {
    const std::size_t begin = first_window_begin();
    return at < admitted_[begin].at + window ? begin : admitted_.size();
  }
  const auto counts = [&](Wide entry) {
    switch (limit.kind) {
      case Kind::kFixedWindow:
        return entry / window == at / window;
      case Kind::kSlidingCounter:
        return entry / window >= at / window - 1;
      case Kind::kSlidingWindow: {
        const Wide before = limit.strict ? limit.sub_windows() : limit.sub_windows() - 1;
        return entry / limit.sub_window_ns() >= at / limit.sub_window_ns() - before;
      }
      default:
        return entry > at - window;
    }
  };
  std::size_t first = 0;
  while (first < admitted_.size() && !counts(admitted_[first].at)) ++first;
  return first;
}

Wide PartState::sum_counted(const ModelLimit& limit, Wide at) const {
  Wide sum = 0;
  for (std::size_t i = first_counted(limit, at); i < admitted_.size(); ++i) {
    sum += admitted_[i].units;
  }
  return sum;
}

PartState::Used PartState::counter_use(const ModelLimit& limit, Wide at) const {
  Used used;
  for (const auto& entry : admitted_) {
    const Wide age = at / limit.window_ns - entry.at / limit.window_ns;
    if (age == 0) used.current += entry.units;
    if (age == 1) used.previous += entry.units;
  }
  return used;
}

bool PartState::counter_admits(const ModelLimit& limit, Wide at, Wide units) const {
  const Used used = counter_use(limit, at);
  const auto window = static_cast<double>(limit.window_ns);
  const auto elapsed_left = static_cast<double>(limit.window_ns - at % limit.window_ns);
  const double share = elapsed_left / window;
  const double carried = static_cast<double>(used.previous) * share;
  const double total = carried + static_cast<double>(used.current);
  return total + static_cast<double>(units) <= static_cast<double>(limit.count);
}

// The token bucket's wait until the request can be admitted.
Wide PartState::wait_ns(const ModelLimit& limit, Wide now, Wide units) const {
  const Wide base = std::max(now, tat_);
  const Wide capacity = limit.most() * limit.interval_ns();
  const Wide until = limit.borrow ? base : base + units * limit.interval_ns();
  return std::max(Wide{0}, until - capacity - now);
}

// Whether units >= 1 are admitted at `now`, without the check of out_of_numbers().
bool PartState::admits(const ModelLimit& limit, Wide now, const PartCall& call) const {
  const Wide units = call.cost;
  const bool borrows = limit.kind == Kind::kTokenBucket && limit.borrow;
  if (units > limit.most() && !borrows) return false;
  if (limit.kind == Kind::kTokenBucket) {
    return wait_ns(limit, now, units) <= std::max(Wide{0}, Wide{call.patience_ns});
  }
  if (limit.kind == Kind::kLeakyBucket) {
    const Wide base = std::max(now, tat_);
    const bool room = base + (units - limit.most()) * limit.interval_ns() <= now;
    return room && (call.patience_ns < 0 || base - now <= call.patience_ns);
  }
  const Wide at = judged_at(limit, now);
  if (limit.kind == Kind::kSlidingCounter) return counter_admits(limit, at, units);
  return sum_counted(limit, at) + units <= limit.count;
}

// A bucket's instant must fit 64 bits. Without other requests it only grows with time, so a request
// that overflows now always will.
bool PartState::out_of_numbers(const ModelLimit& limit, const PartCall& call) const {
  if (!is_bucket(limit)) return false;
  return std::max(Wide{call.now}, tat_) + call.cost * limit.interval_ns() > kMost64;
}

// The shortest wait after which the request is admitted, or kNever. Without other requests an
// admissible request stays so, therefore a binary search finds it.
Wide PartState::smallest_wait(const ModelLimit& limit, const PartCall& call) const {
  Wide denied = 0;
  Wide admitted = Wide{1} << 66;
  if (out_of_numbers(limit, call) || !admits(limit, call.now + admitted, call)) {
    return kNever.count();
  }
  while (admitted - denied > 1) {
    const Wide middle = denied + (admitted - denied) / 2;
    (admits(limit, call.now + middle, call) ? admitted : denied) = middle;
  }
  return admitted;
}

Wide PartState::remaining(const ModelLimit& limit, Instant now) const {
  if (is_bucket(limit)) {
    const Wide ahead = std::max(Wide{now}, tat_) - now;
    const Wide left = limit.most() * limit.interval_ns() - ahead;
    return left < 0 ? Wide{0} : left / limit.interval_ns();
  }
  const Wide at = judged_at(limit, now);
  if (limit.kind != Kind::kSlidingCounter) {
    return std::max(Wide{0}, limit.count - sum_counted(limit, at));
  }
  Wide fits = 0;
  for (Wide step = Wide{1} << 53; step > 0; step /= 2) {
    if (fits + step <= limit.count && counter_admits(limit, at, fits + step)) fits += step;
  }
  return fits;
}

// The end of the fixed window, or of the counter's window, that contains `at`.
Wide PartState::window_end(const ModelLimit& limit, Wide at) const {
  if (limit.kind == Kind::kFixedWindow && limit.anchor_first) {
    return admitted_[first_window_begin()].at + limit.window_ns;
  }
  return (at / limit.window_ns + 1) * limit.window_ns;
}

Wide PartState::reset_after(const ModelLimit& limit, Instant now) const {
  if (is_bucket(limit)) return std::max(Wide{0}, tat_ - now);
  const Wide at = judged_at(limit, now);
  if (limit.kind == Kind::kSlidingCounter) {
    const Used used = counter_use(limit, at);
    if (used.current > 0) return window_end(limit, at) + limit.window_ns - now;
    return used.previous > 0 ? window_end(limit, at) - now : Wide{0};
  }
  if (sum_counted(limit, at) == 0) return 0;
  const Wide last = admitted_.back().at;
  if (limit.kind == Kind::kFixedWindow) return window_end(limit, at) - now;
  if (limit.kind == Kind::kSlidingLog) return last + limit.window_ns - now;
  const Wide counts_for = limit.sub_windows() + (limit.strict ? 1 : 0);
  return (last / limit.sub_window_ns() + counts_for) * limit.sub_window_ns() - now;
}

Decision PartState::peek(const ModelLimit& limit, Instant now) const {
  return {.allowed = true,
          .limit = narrow(limit.most()),
          .remaining = narrow(remaining(limit, now)),
          .reset_after = ns(reset_after(limit, now))};
}

// A change removes entries that no longer count for good: they do not count again if newer units
// are refunded and the clock is then set back.
void PartState::forget_before(std::size_t first) {
  admitted_.erase(admitted_.begin(), admitted_.begin() + static_cast<std::ptrdiff_t>(first));
}

Decision PartState::take(const ModelLimit& limit, const PartCall& call) {
  if (call.cost == 0) return peek(limit, call.now);
  if (out_of_numbers(limit, call) || !admits(limit, call.now, call)) {
    Decision denied = peek(limit, call.now);
    denied.allowed = false;
    denied.retry_after = ns(smallest_wait(limit, call));
    return denied;
  }
  Wide delay = 0;
  const Wide base = std::max(Wide{call.now}, tat_);
  if (limit.kind == Kind::kTokenBucket) delay = wait_ns(limit, call.now, call.cost);
  if (limit.kind == Kind::kLeakyBucket) delay = base - call.now;
  if (is_bucket(limit)) {
    tat_ = base + call.cost * limit.interval_ns();
  } else {
    const Wide at = judged_at(limit, call.now);
    forget_before(first_counted(limit, at));
    admitted_.push_back({at, call.cost});
    newest_ = at;
  }
  shape_ = shape_of(limit);
  Decision decision = peek(limit, call.now);
  decision.delay = ns(delay);
  return decision;
}

// Counts stop at 2^53 - 1, for the counter in each window, and a bucket's instant at 2^63 - 1.
Decision PartState::charge(const ModelLimit& limit, const PartCall& call) {
  if (call.cost == 0) return peek(limit, call.now);
  shape_ = shape_of(limit);
  if (is_bucket(limit)) {
    const Wide base = std::max(Wide{call.now}, tat_);
    tat_ = std::min(base + call.cost * limit.interval_ns(), kMost64);
    return peek(limit, call.now);
  }
  const Wide at = judged_at(limit, call.now);
  const bool counter = limit.kind == Kind::kSlidingCounter;
  const Wide counted = counter ? counter_use(limit, at).current : sum_counted(limit, at);
  forget_before(first_counted(limit, at));
  if (counted < kMost53) {
    admitted_.push_back({at, std::min(Wide{call.cost}, kMost53 - counted)});
    newest_ = at;
  }
  return peek(limit, call.now);
}

Decision PartState::refund(const ModelLimit& limit, const PartCall& call) {
  if (is_bucket(limit)) {
    const Wide lowered = std::max(tat_ - call.cost * limit.interval_ns(), Wide{call.now});
    tat_ = std::min(tat_, lowered);
    return peek(limit, call.now);
  }
  forget_before(first_counted(limit, judged_at(limit, call.now)));
  Wide left = call.cost;
  while (left > 0 && !admitted_.empty()) {
    const Wide back = std::min(left, admitted_.back().units);
    left -= back;
    admitted_.back().units -= back;
    if (admitted_.back().units == 0) admitted_.pop_back();
  }
  return peek(limit, call.now);
}

Wide PermitBook::held_at(Wide now) const {
  return std::ranges::count_if(permits_, [&](const Permit& p) { return p.expires > now; });
}

bool PermitBook::holds(const PartCall& call) const {
  return std::ranges::any_of(
      permits_, [&](const Permit& p) { return p.id == call.permit && p.expires > call.now; });
}

void PermitBook::forget(const PartCall& call) {
  std::erase_if(permits_,
                [&](const Permit& p) { return p.expires <= call.now || p.id == call.permit; });
}

Decision PermitBook::peek(const ModelLimit& limit, Instant now) const {
  Wide last = now;
  for (const auto& permit : permits_) last = std::max(last, permit.expires);
  const Wide left = std::max(Wide{0}, limit.count - held_at(now));
  return {.allowed = true,
          .limit = limit.count,
          .remaining = static_cast<std::int64_t>(left),
          .reset_after = ns(last - now)};
}

Decision PermitBook::denied(const ModelLimit& limit, Instant now, Wide retry) const {
  Decision decision = peek(limit, now);
  decision.allowed = false;
  decision.retry_after = ns(retry);
  return decision;
}

Decision PermitBook::take(const ModelLimit& limit, const PartCall& call) {
  if (call.cost == 0) return peek(limit, call.now);
  if (call.cost > 1) return denied(limit, call.now, kNever.count());
  if (held_at(call.now) >= limit.count) {
    // There is room when so many have expired that fewer than the limit are held.
    Wide room = -1;
    for (const auto& permit : permits_) {
      const bool enough = permit.expires > call.now && held_at(permit.expires) < limit.count;
      if (enough && (room < 0 || permit.expires < room)) room = permit.expires;
    }
    return denied(limit, call.now, room - call.now);
  }
  forget(call);
  permits_.push_back({call.permit, Wide{call.now} + limit.window_ns});
  return peek(limit, call.now);
}

Decision PermitBook::renew(const ModelLimit& limit, const PartCall& call) {
  if (!holds(call)) return denied(limit, call.now, kNever.count());
  forget(call);
  permits_.push_back({call.permit, Wide{call.now} + limit.window_ns});
  return peek(limit, call.now);
}

Decision PermitBook::release(const ModelLimit& limit, const PartCall& call) {
  if (!holds(call)) return denied(limit, call.now, kNever.count());
  forget(call);
  return peek(limit, call.now);
}

}  // namespace sluice::model
