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

/// Which requests a store can judge together, all or none.
enum class Lists {
  kAnyKeys,
  kEqualKeys,  ///< Of one key, under several limits: a cluster, where keys share a slot.
  kOne,        ///< One request alone; more are refused.
};

/// One row for every store that must keep the promises of core/store.h.
struct StoreCase {
  /// Part of the tests' names: letters and digits.
  std::string name;
  /// Opens an empty store that takes its time from the caller. Called once for every sequence, so
  /// a store on a server opens under a prefix of its own.
  std::function<std::shared_ptr<Store>()> open;
  /// The share of the usual number of cases that is tried, for stores that answer slowly.
  double share = 1;
  Lists lists = Lists::kAnyKeys;
  /// The largest limit of a sliding_log that is one of eight parts.
  std::int64_t most_log = 65'536;
  /// The largest limit of permits.
  std::int64_t most_permits = 65'536;

  friend std::ostream& operator<<(std::ostream& out, const StoreCase& store) {
    return out << store.name;
  }
};

/// The fixture of every test in the suite.
class EveryStore : public testing::TestWithParam<StoreCase> {};

/// So many cases, times SLUICE_TEST_SCALE and the store's share; at least 1.
int scaled(int cases, const StoreCase& store);

/// Tries a property on scaled(cases) generated cases. A failure prints the smallest case found and
/// the seed that leads to it again.
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
