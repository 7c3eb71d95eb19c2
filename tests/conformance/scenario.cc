#include "conformance/scenario.h"

#include <algorithm>
#include <bitset>
#include <limits>
#include <map>
#include <ostream>
#include <set>
#include <sstream>
#include <utility>

namespace sluice::conformance {
namespace {

using model::Kind;
using model::ModelLimit;
using model::ModelLimits;
using model::Wide;

constexpr std::int64_t kMost64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kTwo53 = std::int64_t{1} << 53;

std::int64_t clamp_to(Wide value, Wide least, Wide most) {
  return static_cast<std::int64_t>(std::clamp(value, least, most));
}

template <class... Numbers>
rc::Gen<std::int64_t> among(Numbers... numbers) {
  return rc::gen::elementOf(std::vector<std::int64_t>{numbers...});
}

// Common properties of the instants of one scenario.
struct Frame {
  std::int64_t window_ns = 1;
  Instant origin = 0;
};

std::int64_t any_window() {
  return *rc::gen::weightedOneOf<std::int64_t>(
      {{4, rc::gen::inRange<std::int64_t>(1, 1000)},
       {4, among(10, 60, 100, 1000)},
       {4, among(1'000'000'000, 60'000'000'000, 86'400'000'000'000)},
       {3, among(1, 2, 3, 7, 999'999'937)},
       {2, among(kTwo53, kTwo53 - 1, kMaxDurationNs, kMaxDurationNs - 1)}});
}

Frame any_frame() {
  Frame frame;
  frame.window_ns = any_window();
  frame.origin = *among(0, 1'700'000'000'123'456'789, 1'700'000'000'123'456'789, kMaxDurationNs,
                        kEndOfTime - 1);
  return frame;
}

std::int64_t any_count() {
  return *rc::gen::weightedOneOf<std::int64_t>(
      {{6, among(1, 2, 3, 5)},
       {4, rc::gen::inRange<std::int64_t>(1, 30)},
       {2, among(100, 1000, 65'536)},
       {1, among(kMaxCount, kMaxCount - 1, 1'000'000'007)}});
}

// Makes a limit valid, and changes only its invalid numbers.
ModelLimit made_definable(ModelLimit limit) {
  if (limit.kind == Kind::kSlidingLog || limit.kind == Kind::kConcurrency) {
    limit.count = std::min<std::int64_t>(limit.count, 65'536);
  }
  if (limit.kind == Kind::kSlidingCounter) limit.window_ns = std::min(limit.window_ns, kTwo53);
  if (limit.precision_ns) {
    limit.precision_ns =
        clamp_to(*limit.precision_ns, (limit.window_ns + 999) / 1000, limit.window_ns);
  }
  const Wide most = Wide{kMaxDurationNs} / limit.interval_ns();
  if (limit.kind == Kind::kTokenBucket && limit.most() > most)
    limit.burst = clamp_to(most, 1, most);
  if (limit.kind == Kind::kLeakyBucket && limit.most() > most) {
    limit.queue = clamp_to(most - 1, 0, most - 1);
  }
  return limit;
}

ModelLimit any_limit(const Wanted& wanted, const Frame& frame) {
  ModelLimit limit;
  limit.kind = *rc::gen::elementOf(wanted.kinds);
  limit.count = any_count();
  const Wide window = frame.window_ns;
  const Wide multiple = *rc::gen::element<int>(1, 1, 1, 2, 3);
  limit.window_ns = clamp_to(window * multiple, 1, kMaxDurationNs);
  switch (limit.kind) {
    case Kind::kFixedWindow:
      limit.anchor_first = *rc::gen::arbitrary<bool>();
      break;
    case Kind::kSlidingWindow:
      limit.strict = wanted.strict || *rc::gen::element(true, true, false);
      if (*rc::gen::arbitrary<bool>()) {
        const auto share = *among(1, 2, 3, 5, 10, 60, 1000);
        limit.precision_ns = clamp_to(limit.window_ns / share, 1, limit.window_ns);
      }
      break;
    case Kind::kTokenBucket:
      if (*rc::gen::arbitrary<bool>()) limit.burst = any_count();
      limit.borrow = wanted.borrow && *rc::gen::element(false, false, true);
      break;
    case Kind::kLeakyBucket:
      limit.queue = any_count() - 1;
      break;
    default:
      break;
  }
  return made_definable(limit);
}

ModelLimits any_limits(const Wanted& wanted, const Frame& frame) {
  const auto count = *rc::gen::inRange(wanted.least_parts, wanted.most_parts + 1);
  ModelLimits limits;
  while (limits.size() < count) limits.push_back(any_limit(wanted, frame));
  return limits;
}

// The same limit with other numbers and options under which its states keep their meaning: a
// bucket's state is one instant, so its rate may change too, and a permit has its own expiry.
ModelLimits changed(ModelLimits limits, const Wanted& wanted) {
  for (auto& limit : limits) {
    const bool keeps_window = limit.kind != Kind::kTokenBucket &&
                              limit.kind != Kind::kLeakyBucket && limit.kind != Kind::kConcurrency;
    if (!keeps_window)
      limit.window_ns = clamp_to(Wide{limit.window_ns} * *among(1, 2, 5), 1, kMaxDurationNs);
    limit.count = any_count();
    limit.queue = any_count() - 1;
    if (limit.burst) limit.burst = any_count();
    limit.strict = wanted.strict || *rc::gen::arbitrary<bool>();
    limit.borrow = wanted.borrow && *rc::gen::arbitrary<bool>();
    limit = made_definable(limit);
  }
  return limits;
}

std::vector<ModelLimits> any_limit_list(const Wanted& wanted, const Frame& frame) {
  const auto count =
      *rc::gen::inRange<std::size_t>(wanted.one_space ? 2 : 1, wanted.most_limits + 1);
  std::vector<ModelLimits> list{any_limits(wanted, frame)};
  while (list.size() < count) {
    list.push_back(wanted.one_space ? changed(list.front(), wanted) : any_limits(wanted, frame));
  }
  return list;
}

std::int64_t any_cost(const ModelLimit& limit) {
  if (limit.kind == Kind::kConcurrency) {
    return *rc::gen::weightedElement<std::int64_t>({{30, 1}, {4, 0}, {1, 2}, {1, kMost64}});
  }
  const auto most = static_cast<std::int64_t>(limit.most());
  return *rc::gen::weightedOneOf<std::int64_t>(
      {{8, rc::gen::just<std::int64_t>(1)},
       {6, among(0, 2, most, most - 1, most + 1, most / 2 + 1, most / 3 + 1)},
       {2, rc::gen::inRange<std::int64_t>(0, 10)},
       {1, among(kTwo53 - 1, kTwo53, kTwo53 + 1, kMost64)}});
}

std::int64_t any_patience(const ModelLimit& limit) {
  const Wide interval = limit.interval_ns();
  const auto whole = clamp_to(interval * limit.most(), 0, kMost64);
  const auto one = clamp_to(interval, 0, kMost64);
  return *rc::gen::weightedOneOf<std::int64_t>({{6, rc::gen::just(kDefaultPatience)},
                                                {4, among(0, one - 1, one, one + 1, whole)},
                                                {2, rc::gen::inRange<std::int64_t>(0, 50)},
                                                {1, among(kMaxDurationNs, kEndOfTime, kMost64)}});
}

// The duration of a block.
std::int64_t any_duration(const ModelLimit& limit) {
  const auto window = clamp_to(limit.window_ns, 1, kMaxDurationNs);
  const auto one = clamp_to(limit.interval_ns(), 1, kMaxDurationNs);
  return *rc::gen::weightedOneOf<std::int64_t>({{4, among(1, one, window, window / 3 + 1)},
                                                {4, rc::gen::inRange<std::int64_t>(1, 100)},
                                                {1, among(kMaxDurationNs, kMaxDurationNs - 1)}});
}

Operation any_operation(const Wanted& wanted, const ModelLimit& limit) {
  // The frequency of an operation is the number of its copies here.
  std::vector<Operation> among(12, Operation::kTake);
  if (limit.kind == Kind::kConcurrency) {
    among.insert(among.end(), 4, Operation::kRenew);
    among.insert(among.end(), 5, Operation::kRelease);
  } else {
    if (wanted.refunds) among.insert(among.end(), 4, Operation::kRefund);
    if (wanted.charges) among.insert(among.end(), 3, Operation::kCharge);
    if (wanted.take_up_to) among.insert(among.end(), 3, Operation::kTakeUpTo);
  }
  if (wanted.blocks) among.push_back(Operation::kBlock);
  if (wanted.resets) among.push_back(Operation::kReset);
  return *rc::gen::elementOf(among);
}

// An instant at an edge of the limit's windows, next to one, or anywhere between two.
Instant any_instant(const ModelLimit& limit, const Frame& frame) {
  Wide grid = limit.window_ns;
  int most_steps = 4;
  if (*rc::gen::inRange(0, 3) > 0) {
    const bool windows = limit.kind == Kind::kSlidingWindow;
    grid = windows ? limit.sub_window_ns() : limit.interval_ns();
    most_steps = 14;
  }
  const Wide start = Wide{frame.origin} / limit.window_ns * limit.window_ns;
  const Wide steps = *rc::gen::inRange(0, most_steps);
  const auto inside = clamp_to(grid, 1, kMost64);
  const Wide off = *rc::gen::weightedOneOf<std::int64_t>(
      {{6, among(0, -1, 1)}, {3, rc::gen::inRange<std::int64_t>(0, inside)}});
  // Near the end of time, the steps go backwards.
  const bool back = frame.origin == kEndOfTime - 1;
  return clamp_to(start + (back ? -steps : steps) * grid + off, 0, kEndOfTime - 1);
}

// An event whose instant and permit are not determined yet.
struct Draft {
  Event event;
  bool astray = false;
  // Selects the permit to renew or release.
  std::size_t choice = 0;
};

rc::Gen<Draft> any_draft(const Wanted& wanted, const Frame& frame,
                         const std::vector<ModelLimits>& limits) {
  return rc::gen::exec([wanted, frame, limits] {
    Draft draft;
    Event& event = draft.event;
    event.limit = *rc::gen::inRange<std::size_t>(0, limits.size());
    event.key = *rc::gen::inRange<std::size_t>(0, wanted.keys);
    const ModelLimit part = *rc::gen::elementOf(limits[event.limit]);
    event.now = any_instant(part, frame);
    event.cost = any_cost(part);
    if (wanted.patience) event.patience_ns = any_patience(part);
    event.operation = any_operation(wanted, part);
    if (event.operation == Operation::kBlock) event.duration_ns = any_duration(part);
    const bool leaves_out = event.operation == Operation::kRefund && *rc::gen::arbitrary<bool>();
    if (leaves_out) event.uncounted_parts = *rc::gen::arbitrary<std::uint8_t>();
    if (event.operation == Operation::kRenew || event.operation == Operation::kRelease) {
      event.cost = 1;
      draft.choice = *rc::gen::inRange<std::size_t>(0, 1000);
    }
    event.together = *rc::gen::inRange(0, 5) >= 3;
    event.wants_parts = *rc::gen::arbitrary<bool>();
    draft.astray = !wanted.in_order && *rc::gen::inRange(0, 5) == 4;
    return draft;
  });
}

// The permit that an event renews or releases: mostly one of its own key. `earlier` are all events
// before it.
PermitId chosen_permit(const Draft& draft, const std::vector<Event>& earlier) {
  constexpr PermitId kUnknown = 77;
  const std::size_t choice = draft.choice / 8;
  std::vector<PermitId> candidates;
  for (const auto& event : earlier) {
    if (event.permit == 0 || event.operation != Operation::kTake) continue;
    const bool own = event.limit == draft.event.limit && event.key == draft.event.key;
    if (own || draft.choice % 8 == 1) candidates.push_back(event.permit);
  }
  if (candidates.empty() || draft.choice % 8 == 2) return kUnknown;
  return candidates[candidates.size() - 1 - choice % candidates.size()];
}

// The ids are spread over their whole range, in no order.
void name_permits(std::vector<Draft>& drafts) {
  std::vector<Event> earlier;
  for (auto& draft : drafts) {
    Event& event = draft.event;
    const bool names_one =
        event.operation == Operation::kRenew || event.operation == Operation::kRelease;
    event.permit = names_one ? chosen_permit(draft, earlier)
                             : (earlier.size() + 1) * std::uint64_t{0x9E3779B97F4A7C15};
    earlier.push_back(event);
  }
}

// After an event that follows the end of a key's block, no event for that key is before that end.
void stay_after_blocks(std::vector<Event>& events) {
  struct Block {
    Instant until = 0;
    Instant over = 0;
  };
  std::map<std::size_t, Block> keys;
  for (std::size_t i = 0; i < events.size(); ++i) {
    Event& event = events[i];
    Block& block = keys[event.key];
    if (event.together) event.now = events[i - 1].now;
    if (event.now < block.over) {
      event.now = block.over;
      event.together = false;
    }
    if (event.now >= block.until) block.over = block.until;
    if (event.operation == Operation::kBlock) {
      block.until = std::max(block.until, event.now + event.duration_ns);
    }
  }
}

// Sorts the instants that are meant to be in order, gives events that are together the same
// instant, and chooses permits.
std::vector<Event> settled(std::vector<Draft> drafts) {
  name_permits(drafts);
  if (!drafts.empty()) drafts.front().event.together = false;
  const auto ordered = [](const Draft& d) { return !d.astray && !d.event.together; };
  std::vector<Instant> instants;
  for (const auto& draft : drafts) {
    if (ordered(draft)) instants.push_back(draft.event.now);
  }
  std::sort(instants.begin(), instants.end());
  auto next = instants.begin();
  std::vector<Event> events;
  for (auto& draft : drafts) {
    if (ordered(draft)) draft.event.now = *next++;
    if (draft.event.together) draft.event.now = events.back().now;
    events.push_back(draft.event);
  }
  stay_after_blocks(events);
  return events;
}

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::kTake:
      return "take";
    case Operation::kTakeUpTo:
      return "take up to";
    case Operation::kCharge:
      return "charge";
    case Operation::kRefund:
      return "refund";
    case Operation::kBlock:
      return "block";
    case Operation::kReset:
      return "reset";
    case Operation::kRenew:
      return "renew";
    case Operation::kRelease:
      return "release";
  }
  return "";
}

}  // namespace

bool changes(const Event& event) {
  return event.cost > 0 || event.operation == Operation::kBlock ||
         event.operation == Operation::kReset;
}

rc::Gen<Scenario> scenarios(const Wanted& wanted) {
  using Ground = std::pair<Frame, std::vector<ModelLimits>>;
  const auto grounds = rc::gen::exec([wanted] {
    const Frame frame = any_frame();
    return Ground(frame, any_limit_list(wanted, frame));
  });
  return rc::gen::mapcat(grounds, [wanted](const Ground& ground) {
    return rc::gen::map(
        rc::gen::container<std::vector<Draft>>(any_draft(wanted, ground.first, ground.second)),
        [ground](std::vector<Draft> drafts) {
          return Scenario{ground.second, settled(std::move(drafts))};
        });
  });
}

rc::Gen<Scenario> scenarios(const StoreCase& store, const Wanted& wanted) {
  return rc::gen::map(scenarios(wanted),
                      [log = store.most_log, permits = store.most_permits](Scenario scenario) {
                        for (auto& limits : scenario.limits) {
                          for (ModelLimit& limit : limits) {
                            if (limit.kind == Kind::kSlidingLog)
                              limit.count = std::min(limit.count, log);
                            if (limit.kind == Kind::kConcurrency)
                              limit.count = std::min(limit.count, permits);
                          }
                        }
                        return scenario;
                      });
}

std::vector<Stretch> stretches(const std::vector<Event>& events) {
  std::vector<Stretch> all;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!events[i].together || all.empty()) all.push_back({i, i});
    all.back().end = i + 1;
  }
  return all;
}

std::vector<Event> as_list(const Scenario& scenario, Stretch stretch, Lists lists) {
  std::vector<Event> list;
  std::set<std::pair<std::size_t, std::size_t>> seen;
  for (std::size_t i = stretch.begin; i < stretch.end && list.size() < kMaxTogether; ++i) {
    const Event& event = scenario.events[i];
    if (event.operation != Operation::kTake) continue;
    if (lists == Lists::kEqualKeys && !list.empty() && event.key != list[0].key) continue;
    if (lists == Lists::kOne && !list.empty()) break;
    if (seen.insert({event.limit, event.key}).second) list.push_back(event);
  }
  return list;
}

std::string describe(const Scenario& scenario, const Event& event) {
  std::ostringstream out;
  out << (event.together ? "  together " : "") << "at " << event.now << "ns "
      << name_of(event.operation) << " " << event.cost << " of key " << event.key << " under limit "
      << event.limit << " (" << expression(scenario.limits[event.limit]) << ")";
  if (event.wants_parts) out << " with parts";
  if (event.uncounted_parts != 0) out << " but for parts " << std::bitset<8>(event.uncounted_parts);
  if (event.patience_ns != kDefaultPatience) out << " patience " << event.patience_ns << "ns";
  if (event.operation == Operation::kBlock) out << " for " << event.duration_ns << "ns";
  if (model::lends(scenario.limits[event.limit])) out << " permit " << event.permit;
  return out.str();
}

void showValue(const Scenario& scenario, std::ostream& out) {
  for (std::size_t i = 0; i < scenario.limits.size(); ++i) {
    out << "limit " << i << ": " << expression(scenario.limits[i]) << "\n";
  }
  for (std::size_t i = 0; i < scenario.events.size(); ++i) {
    out << "#" << i << " " << describe(scenario, scenario.events[i]) << "\n";
  }
}

}  // namespace sluice::conformance

namespace sluice {

void showValue(const Decision& decision, std::ostream& out) {
  out << "{allowed=" << decision.allowed << " binding=" << int{decision.binding}
      << " limit=" << decision.limit << " remaining=" << decision.remaining
      << " retry_after=" << decision.retry_after.count()
      << " reset_after=" << decision.reset_after.count() << " delay=" << decision.delay.count()
      << " taken=" << decision.taken << " source=" << static_cast<int>(decision.source) << "}";
}

void PrintTo(const Decision& decision, std::ostream* out) {
  showValue(decision, *out);
}

}  // namespace sluice
