// The largest values that a limit can have, on a real server with an item's usual bound.

#include <gtest/gtest.h>

#include "stores/memcached/key_state.h"
#include "stores/memcached/keys_under_test.h"
#include "stores/memcached/memcached_store.h"

namespace sluice::memcached {
namespace {

constexpr std::int64_t kMost = MemcachedStore::kMaxKept;
// Entries so far apart take the most bytes.
constexpr std::int64_t kStepNs = std::int64_t{73} * 7 * 86'400 * kSecondNs / 40'000;
constexpr Instant kFull = kNow + kMost * kStepNs;

class FullValue : public testing::Test {
 protected:
  // Sets the key's value to that of a key of which one less than the most has been taken.
  void plant(const Limit& limit) {
    KeyState state;
    Request request{.limit = &limit.definition(), .key = "k"};
    for (std::int64_t i = 1; i < kMost; ++i) {
      request.permit = ~static_cast<PermitId>(i);
      ASSERT_TRUE(state.judge(request, kNow + i * kStepNs).allowed);
    }
    std::string value;
    state.write(value);
    const std::string size = std::to_string(value.size());
    ASSERT_EQ(server_.command("ms sluice:login:k " + size + " T3600\r\n" + value + "\r\n"),
              "HD\r\n");
  }

  const servers::MemcachedServer server_;
  MemcachedStore store_{options({&server_})};
};

TEST_F(FullValue, OfALogIsTakenFromAndWritten) {
  const std::string expression = "sliding_log 32768/73w";
  plant(Limit(expression, "login"));
  Keys keys(store_, expression);
  EXPECT_EQ(keys.take("k", 0, kFull).remaining, 1);
  EXPECT_TRUE(keys.take("k", 1, kFull).allowed);
  EXPECT_FALSE(keys.take("k", 1, kFull).allowed);
  EXPECT_EQ(keys.ask(keys.request("k", 1, Operation::kRefund), kFull).remaining, 1);
}

TEST_F(FullValue, OfPermitsIsTakenFromAndWritten) {
  const std::string expression = "concurrency 32768 lease=73w";
  plant(Limit(expression, "login"));
  Keys keys(store_, expression);
  EXPECT_TRUE(keys.ask(keys.lend("k", 1, Operation::kTake), kFull).allowed);
  EXPECT_FALSE(keys.ask(keys.lend("k", 2, Operation::kTake), kFull).allowed);
  EXPECT_EQ(keys.ask(keys.lend("k", ~PermitId{77}, Operation::kRelease), kFull).remaining, 1);
}

}  // namespace
}  // namespace sluice::memcached
