#pragma once

#include <rapidcheck.h>

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "conformance/every_store.h"
#include "core/store.h"
#include "model/model.h"

namespace sluice::conformance {

/// One request of a scenario: limit, key, operation.
struct Event {
  std::size_t limit = 0;
  std::size_t key = 0;
  Operation operation = Operation::kTake;
  std::int64_t cost = 1;
  std::int64_t patience_ns = kDefaultPatience;
  std::int64_t duration_ns = 1;
  PermitId permit = 0;
  /// Of a refund: see Request::uncounted_parts.
  std::uint8_t uncounted_parts = 0;
  Instant now = 0;
  /// Sent at the same instant as the event before it, in one batch or list with it.
  bool together = false;
  /// Whether the decisions of the limit's parts are asked for.
  bool wants_parts = false;
};

/// Whether the event changes the key if it is admitted.
bool changes(const Event& event);

/// Limits, and a sequence of requests. The space of limit i is named space_name(i).
struct Scenario {
  std::vector<model::ModelLimits> limits;
  std::vector<Event> events;
};

/// The kinds that spend units, which may be joined by `&`.
inline const std::vector<model::Kind> kSpendingKinds = {
    model::Kind::kFixedWindow,    model::Kind::kSlidingLog,  model::Kind::kSlidingWindow,
    model::Kind::kSlidingCounter, model::Kind::kTokenBucket, model::Kind::kLeakyBucket};

/// All kinds: these and kConcurrency.
inline const std::vector<model::Kind> kEveryKind = [] {
  auto kinds = kSpendingKinds;
  kinds.push_back(model::Kind::kConcurrency);
  return kinds;
}();

/// The contents of generated scenarios. For `concurrency` limits, some permits are always renewed
/// and released: held ones, expired ones, those of other keys, denied ones and unknown ones.
struct Wanted {
  /// kConcurrency: REQUIRES most_parts to be 1.
  std::vector<model::Kind> kinds = kSpendingKinds;
  std::size_t most_limits = 2;
  std::size_t least_parts = 1;
  std::size_t most_parts = 1;
  std::size_t keys = 3;
  /// Instants never decrease; otherwise one event in five is out of order.
  bool in_order = false;
  bool refunds = false;
  bool charges = false;
  bool take_up_to = false;
  bool blocks = false;
  bool resets = false;
  bool patience = true;
  bool borrow = true;
  /// Each sliding_window is strict.
  bool strict = false;
  /// All limits are the same limit with changing numbers and options, in one space.
  bool one_space = false;
};

/// Scenarios of corner cases: instants at the edges of windows and one nanosecond around them, at
/// the beginning and the end of time; costs around the limit and far beyond; few keys. Events out
/// of order are not before the end of a block that had ended: a store may have forgotten that
/// block.
rc::Gen<Scenario> scenarios(const Wanted& wanted);

/// The same, without limits that the store does not support.
rc::Gen<Scenario> scenarios(const StoreCase& store, const Wanted& wanted);

/// Events that are sent together: the range [begin, end).
struct Stretch {
  std::size_t begin = 0;
  std::size_t end = 0;
};
std::vector<Stretch> stretches(const std::vector<Event>& events);

/// The requests of one stretch that the store can take as one list: takes, no limit and key twice,
/// at most kMaxTogether.
std::vector<Event> as_list(const Scenario& scenario, Stretch stretch, Lists lists);

std::string describe(const Scenario& scenario, const Event& event);
void showValue(const Scenario& scenario, std::ostream& out);

}  // namespace sluice::conformance

namespace sluice {

/// For RapidCheck and GoogleTest: every field of a decision, in nanoseconds.
void showValue(const Decision& decision, std::ostream& out);
void PrintTo(const Decision& decision, std::ostream* out);

}  // namespace sluice
