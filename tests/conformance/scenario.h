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

/// One request of a scenario: which limit, which key, what.
struct Event {
  std::size_t limit = 0;
  std::size_t key = 0;
  Operation operation = Operation::kTake;
  std::int64_t cost = 1;
  std::int64_t patience_ns = kDefaultPatience;
  std::int64_t duration_ns = 1;
  PermitId permit = 0;
  Instant now = 0;
  /// Asked at the same instant as the event before it, in one batch or list with it.
  bool together = false;
};

/// Whether it changes the key if it is admitted.
bool changes(const Event& event);

/// Limits, and what is asked of them in order. Limit i lives in the space named space_name(i).
struct Scenario {
  std::vector<model::ModelLimits> limits;
  std::vector<Event> events;
};

/// All that are spent from, and so may be joined by `&`.
inline const std::vector<model::Kind> kSpendingKinds = {
    model::Kind::kFixedWindow,    model::Kind::kSlidingLog,  model::Kind::kSlidingWindow,
    model::Kind::kSlidingCounter, model::Kind::kTokenBucket, model::Kind::kLeakyBucket};

/// These and kConcurrency.
inline const std::vector<model::Kind> kEveryKind = [] {
  auto kinds = kSpendingKinds;
  kinds.push_back(model::Kind::kConcurrency);
  return kinds;
}();

/// What a generated scenario may contain. Of a limit of permits, some are always renewed and given
/// back: held ones, lapsed ones, those of other keys, denied ones and unknown ones.
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
  /// The limits are one limit whose numbers change, in one space.
  bool one_space = false;
};

/// Hostile scenarios: instants on the edges of windows and one nanosecond around them, at the
/// beginning and the end of time; costs around the limit and far beyond; few keys. What comes out
/// of order is not before the end of a block that was over: a store may have forgotten that one.
rc::Gen<Scenario> scenarios(const Wanted& wanted);

/// The same, with no limit that the store refuses.
rc::Gen<Scenario> scenarios(const StoreCase& store, const Wanted& wanted);

/// The events that are asked together: [begin, end) of each stretch.
struct Stretch {
  std::size_t begin = 0;
  std::size_t end = 0;
};
std::vector<Stretch> stretches(const std::vector<Event>& events);

/// The requests of one stretch that may stand in one list of the store: they take, no limit and key
/// twice, at most kMaxTogether.
std::vector<Event> as_list(const Scenario& scenario, Stretch stretch, Lists lists);

std::string describe(const Scenario& scenario, const Event& event);
void showValue(const Scenario& scenario, std::ostream& out);

}  // namespace sluice::conformance

namespace sluice {

/// For RapidCheck and GoogleTest: every field of a decision, in nanoseconds.
void showValue(const Decision& decision, std::ostream& out);
void PrintTo(const Decision& decision, std::ostream* out);

}  // namespace sluice
