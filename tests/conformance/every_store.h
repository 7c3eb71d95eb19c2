#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <functional>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>

#include "core/store.h"

namespace sluice::conformance {

/// Which requests a store can decide together, all or nothing.
enum class Lists {
  kAnyKeys,
  kEqualKeys,  ///< Of one key, under several limits: a cluster, where keys share a slot.
  kOne,        ///< One request alone; more are refused.
};

/// A store that must fulfil the contract of core/store.h.
struct StoreCase {
  /// Part of the tests' names: letters and digits.
  std::string name;
  /// Opens an empty store with virtual time. Called once for every sequence, so a store on a server
  /// uses a new prefix each time.
  std::function<std::shared_ptr<Store>()> open;
  /// Opens such a store that goes on from the states of this one at that instant, as after a
  /// restart. Empty if the states are on a server.
  std::function<std::shared_ptr<Store>(Store& store, Instant now)> restart = {};
  /// The share of the usual number of cases, for stores that are slow.
  double share = 1;
  Lists lists = Lists::kAnyKeys;
  /// Whether a key keeps its state while only limits that cannot read it look at it.
  bool keeps_unread_states = true;
  /// The largest limit of a sliding_log that may be one of eight parts.
  std::int64_t most_log = 65'536;
  /// The largest `concurrency` limit.
  std::int64_t most_permits = 65'536;

  friend std::ostream& operator<<(std::ostream& out, const StoreCase& store) {
    return out << store.name;
  }
};

/// The fixture of every test in the suite.
class EveryStore : public testing::TestWithParam<StoreCase> {};

/// `cases` times the store's share and SLUICE_TEST_SCALE, or, where that is not set, the build's
/// share of the cases; at least 4.
int scaled(int cases, const StoreCase& store);

/// Checks a property on scaled(cases) generated cases. A failure prints the smallest failing case,
/// and the seed that reproduces it.
template <class Property>
void check(const StoreCase& store, int cases, Property property) {
  const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
  const std::string id = std::string(info->test_suite_name()) + "/" + info->name();
  auto params = rc::detail::configuration().testParams;
  params.maxSuccess = scaled(cases, store);
  params.maxSize = 200;
  const auto result = rc::detail::checkTestable(std::move(property),
                                                rc::detail::TestMetadata{id, info->name()}, params);
  if (result.template is<rc::detail::SuccessResult>()) return;
  std::ostringstream message;
  rc::detail::printResultMessage(result, message);
  FAIL() << message.str() << "\nSeed: RC_PARAMS=\"seed=" << params.seed << "\"\n";
}

}  // namespace sluice::conformance
