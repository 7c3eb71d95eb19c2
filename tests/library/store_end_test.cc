// What happens to calls that are pending when their store is destroyed.

#include <gtest/gtest.h>

#include <exception>
#include <optional>
#include <thread>

#include "servers/redis_server.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

TEST(StoreEnd, PendingCallsCompleteOnTheThreadThatLetsGoOfTheStore) {
  servers::RedisServer server;
  auto store = open_store(server.url() + "?deadline=1m");
  std::optional<Limiter> limiter = Limiter(store, Limit("fixed_window 5/1d"));
  EXPECT_EQ(limiter->check("key").source, Source::kStore);
  server.pause();
  std::optional<std::thread::id> ran_on;
  limiter->async_check("key", 1, [&](const Decision& decision, const std::exception_ptr&) {
    EXPECT_EQ(decision.source, Source::kLocal);
    ran_on = std::this_thread::get_id();
  });
  store.reset();
  EXPECT_FALSE(ran_on) << "the limiter has a share of it";
  limiter.reset();
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

}  // namespace
}  // namespace sluice
