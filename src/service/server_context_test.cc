#include "service/server_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "stores/memory/memory_store.h"
#include "testing/ask_batch.h"
#include "testing/on_threads.h"
#include "testing/served_store.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<Limit> kNamed{Limit("token_bucket 2/1h", "login"),
                                Limit("token_bucket 9/1h", "api")};

class ServerContextTest : public testing::Test {
 protected:
  /// Asks on a thread's context for `count` units of a key, one by one.
  void take(std::size_t thread, std::string_view limit, std::string_view key, int count) {
    ThreadContext& own = context.thread(thread);
    for (int i = 0; i < count; ++i) {
      const auto& found = own.limits.find(limit);
      own.batch.add(found, {.key = key}, {});
      ask_batch(own, *store);
    }
  }

  std::shared_ptr<ScriptedStore> store = later_store();
  ServerContext context{store, kNamed, 3};
};

TEST_F(ServerContextTest, AddsTheThreadsUp) {
  store->answers = ScriptedStore::Answers::kAtOnce;
  constexpr int kEach = 2'000;
  std::atomic<bool> done = false;
  std::thread reader([&] {
    std::uint64_t seen = 0;
    while (!done) {
      std::uint64_t now = 0;
      for (const OutcomeCount& count : context.outcomes()) now += count.decisions;
      EXPECT_GE(now, seen);
      seen = now;
    }
  });
  on_threads(context.threads(), [&](std::size_t thread) { take(thread, "login", "bob", kEach); });
  done = true;
  reader.join();
  EXPECT_THAT(context.outcomes(),
              ElementsAre(OutcomeCount{"login", Outcome::kAllowed, Source::kStore, 2},
                          OutcomeCount{"login", Outcome::kDenied, Source::kStore, 3 * kEach - 2}));
}

TEST_F(ServerContextTest, ReplacesTheLimitsAndKeepsStatesAndCounts) {
  take(0, "login", "bob", 2);
  take(1, "api", "ann", 10);
  take(2, "api", "bob", 11);
  EXPECT_THAT(context.top("api", 9), ElementsAre(KeyCount{"bob", 2, 0}, KeyCount{"ann", 1, 0}));
  EXPECT_THAT(context.top("api", 1), ElementsAre(KeyCount{"bob", 2, 0}));
  context.replace_limits(
      std::vector<Limit>{Limit("token_bucket 1/1h", "more"), Limit("token_bucket 5/1h", "login")});
  // A thread uses the limits of its batch until it begins another one.
  EXPECT_EQ(context.thread(0).limits.find("login")->limit.expression(), "token_bucket 2/1h");
  for (std::size_t i = 0; i < context.threads(); ++i) context.thread(i).begin_batch();
  EXPECT_EQ(context.thread(0).limits.find("login")->limit.expression(), "token_bucket 5/1h");
  EXPECT_THROW(context.thread(1).limits.find("api"), InvalidLimit);
  // Two units of half an hour each are taken, at five units an hour: an hour is full.
  take(2, "login", "bob", 1);
  take(2, "more", "bob", 1);
  EXPECT_THAT(context.limits(), ElementsAre(LimitCount{"more", "token_bucket 1/1h", 1, 0},
                                            LimitCount{"login", "token_bucket 5/1h", 2, 1},
                                            LimitCount{"(other)", "", 0, 0}));
  // A limit that is added again continues its count, but not those of its keys.
  context.replace_limits(kNamed);
  EXPECT_THAT(context.limits(), ElementsAre(LimitCount{"login", "token_bucket 2/1h", 2, 1},
                                            LimitCount{"api", "token_bucket 9/1h", 18, 3},
                                            LimitCount{"(other)", "", 0, 0}));
  EXPECT_THAT(context.top("api", 9), IsEmpty());
}

TEST_F(ServerContextTest, ALimitOfAnotherKindBeginsFreshWhileTheFormerIsInUse) {
  take(0, "login", "bob", 2);
  const auto former = context.thread(0).limits.find("login");
  context.replace_limits(std::vector<Limit>{Limit("fixed_window 2/1h", "login")});
  context.thread(1).begin_batch();
  take(1, "login", "bob", 1);
  take(0, "login", "bob", 1);  // Still the former, whose state is as it was.
  EXPECT_THAT(context.limits(), ElementsAre(LimitCount{"login", "fixed_window 2/1h", 3, 1},
                                            LimitCount{"(other)", "", 0, 0}));
}

TEST_F(ServerContextTest, ALimitMayComeBackAsAnotherKindWhileAThreadIsIdle) {
  take(0, "login", "bob", 2);
  context.replace_limits(std::vector<Limit>{kNamed[1]});
  for (const std::size_t busy : {1, 2}) context.thread(busy).begin_batch();
  context.replace_limits(std::vector<Limit>{Limit("fixed_window 2/1h", "login")});
  for (const std::size_t busy : {1, 2}) context.thread(busy).begin_batch();
  take(1, "login", "bob", 2);
  take(0, "login", "bob", 1);  // Still the first, of which nothing is left.
  EXPECT_THAT(context.limits(), ElementsAre(LimitCount{"login", "fixed_window 2/1h", 4, 1},
                                            LimitCount{"(other)", "", 0, 0}));
}

TEST_F(ServerContextTest, KeepsLimitsAndStatesWhereTheNewLimitsCannotBeOpened) {
  take(0, "login", "bob", 1);
  store->refuses_spaces = true;
  // The keys of the first limit would start fresh, since it is of another kind.
  const std::vector<Limit> limits{Limit("fixed_window 2/1h", "login"),
                                  Limit("token_bucket 1/1h", "more")};
  EXPECT_THROW(context.replace_limits(limits), StoreError);
  for (const std::size_t each : {0, 1, 2}) context.thread(each).begin_batch();
  take(1, "login", "bob", 2);
  EXPECT_THAT(context.limits(), ElementsAre(LimitCount{"login", "token_bucket 2/1h", 2, 1},
                                            LimitCount{"api", "token_bucket 9/1h", 0, 0},
                                            LimitCount{"(other)", "", 0, 0}));
}

// Many keys have used their unit when a reload that would raise the limit fails. Then other keys
// fill the store.
TEST(ServerContext, ALimitThatIsNotReplacedEvictsByItsOwnNumbers) {
  const auto store = std::make_shared<MemoryStore>(
      MemoryOptions{.max_bytes = MemoryStore::kLeastBytes, .table = {}});
  ServerContext context(store, std::vector<Limit>{Limit("token_bucket 1/1h", "api")}, 1);
  const auto& limit = context.thread(0).limits.find("api");
  const auto take = [&](const std::string& key) {
    const Request request = limit->request(key);
    return store->decide_one(request).allowed;
  };
  const auto name = [](const char* kind, int number) { return kind + std::to_string(number); };
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(take(name("first", i)));

  std::vector<Limit> too_many{Limit("token_bucket 1000/1h burst=3000", "api")};
  for (int i = 0; i < 10'000; ++i) too_many.emplace_back("token_bucket 1/1h", name("more", i));
  EXPECT_THROW(context.replace_limits(too_many), StoreError);

  for (int i = 0; i < 44'000; ++i) take(name("other", i));
  EXPECT_GT(store->counters().without_room, 0U);
  for (int i = 0; i < 500; ++i) EXPECT_FALSE(take(name("first", i))) << i;
}

TEST_F(ServerContextTest, RefusesExpressionsOnceItIsToldTo) {
  take(0, "token_bucket 1/1h", "bob", 1);
  ServedLimits served(kNamed);
  served.expressions = false;
  context.replace_limits(served);
  context.thread(0).begin_batch();
  EXPECT_THROW(context.thread(0).limits.find("token_bucket 1/1h"), InvalidLimit);
}

TEST_F(ServerContextTest, CountsBoundedlyManyNamesOverItsLife) {
  for (int i = 0; i < 1'100; ++i) {
    context.replace_limits(std::vector<Limit>{Limit("token_bucket 9/1h", "a" + std::to_string(i))});
  }
  context.thread(0).begin_batch();
  take(0, "a1099", "bob", 10);
  EXPECT_THAT(context.limits(), ElementsAre(LimitCount{"a1099", "token_bucket 9/1h", 0, 0},
                                            LimitCount{"(other)", "", 9, 1}));
  EXPECT_THAT(context.outcomes(),
              ElementsAre(OutcomeCount{"(other)", Outcome::kAllowed, Source::kStore, 9},
                          OutcomeCount{"(other)", Outcome::kDenied, Source::kStore, 1}));
  EXPECT_THAT(context.top("a1099", 9), IsEmpty());
  EXPECT_THAT(context.top("(other)", 9), ElementsAre(KeyCount{"bob", 1, 0}));
}

}  // namespace
}  // namespace sluice
