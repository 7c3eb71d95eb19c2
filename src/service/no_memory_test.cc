#include <gtest/gtest.h>

#include <vector>

#include "service/server_context.h"
#include "service/top_keys.h"
#include "testing/failing_new.h"
#include "testing/served_store.h"

namespace sluice {
namespace {

TEST(NoMemory, AKeyIsCountedOrTheProcessEnds) {
  TopKeys keys(1);
  keys.add("ann");
  const auto add = [&] { keys.add("ann"); };
  const auto is_whole = [&](bool is_done) {
    keys.add("bob");
    TopKeys::Merged merged;
    std::uint64_t dropped = 0;
    keys.merge_into(merged, dropped);
    return dropped == (is_done ? 2U : 1U) && merged.size() == 1 &&
           merged.at("bob") == KeyCount{"bob", dropped + 1, dropped};
  };
  EXPECT_GT(end_without_memory(add, is_whole), 0);
}

// The server says of a failed reload that all stays as it was.
TEST(NoMemory, LimitsAreReplacedOrNotOrTheProcessEnds) {
  const auto limits = [](const char* expression) {
    return ServedLimits(std::vector<Limit>{Limit(expression, "login")});
  };
  ServerContext context(still_store(), limits("token_bucket 2/1h"), 1);
  const ServedLimits next = limits("token_bucket 3/1h");
  const auto replace = [&] { context.replace_limits(next); };
  const auto is_whole = [&](bool is_done) {
    return context.limits()[0].expression == (is_done ? "token_bucket 3/1h" : "token_bucket 2/1h");
  };
  end_without_memory(replace, is_whole, 40);
}

}  // namespace
}  // namespace sluice
