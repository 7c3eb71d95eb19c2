#include "limiter/open_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "sluice/limiter.h"
#include "testing/child_process.h"
#include "testing/error_of.h"
#include "testing/without_threads.h"

namespace sluice {
namespace {

using testing::HasSubstr;

FallbackOptions options_of(std::string_view text) {
  StoreUrl url(text);
  const FallbackOptions options = read_fallback_options(url);
  url.finish();
  return options;
}

std::string error_of_url(std::string_view text) {
  return error_of([&] { options_of(text); });
}

TEST(FallbackOptions, AreLocalAndCachedUnlessToldOtherwise) {
  const FallbackOptions options = options_of("redis://a");
  EXPECT_EQ(options.on_failure, OnFailure::kLocal);
  EXPECT_EQ(options.local_share, 1);
  EXPECT_EQ(options.deny_cache, std::chrono::seconds(1));
}

TEST(FallbackOptions, AreRead) {
  EXPECT_EQ(options_of("r:?on_failure=local").on_failure, OnFailure::kLocal);
  EXPECT_EQ(options_of("r:?on_failure=allow").on_failure, OnFailure::kAllow);
  EXPECT_EQ(options_of("r:?on_failure=deny").on_failure, OnFailure::kDeny);
  EXPECT_EQ(options_of("r:?on_failure=raise").on_failure, OnFailure::kRaise);
  EXPECT_EQ(options_of("r:?local_share=1/1").local_share, 1);
  EXPECT_EQ(options_of("r:?on_failure=local&local_share=1/1000").local_share, 1000);
  EXPECT_EQ(options_of("r:?deny_cache=no").deny_cache, std::chrono::seconds(0));
  EXPECT_EQ(options_of("r:?deny_cache=250ms").deny_cache, std::chrono::milliseconds(250));
}

TEST(FallbackOptions, SayWhatIsWrong) {
  EXPECT_THAT(error_of_url("r:?on_failure=panic"),
              HasSubstr("on_failure is local or allow or deny or raise"));
  for (const auto* share : {"", "1", "2/3", "1/", "1/0", "1/1001", "1/-1", "1/2x", "0.5"}) {
    EXPECT_THAT(error_of_url("r:?local_share=" + std::string(share)),
                HasSubstr("local_share is 1/N, with N from 1 to 1000"))
        << share;
  }
  EXPECT_THAT(error_of_url("r:?on_failure=deny&local_share=1/2"),
              HasSubstr("local_share goes with on_failure=local only"));
  for (const auto* hold : {"1", "yes", "0s", "25h"}) {
    EXPECT_THAT(error_of_url("r:?deny_cache=" + std::string(hold)),
                HasSubstr("deny_cache is a duration, as 10ms or 1m30s, from 1ms to 1d, or no"));
  }
  EXPECT_THAT(error_of_url("r:?prefix=x"),
              HasSubstr("there is no option 'prefix'; there are on_failure, local_share"));
}

// No server listens there.
constexpr const char* kAway = "redis://127.0.0.1:1?deadline=5ms";

TEST(OpenStore, TakesTheOptionsOfTheFallbackAndTheStore) {
  const std::string away = kAway;
  Limiter denied(open_store(away + "&on_failure=deny&prefix=p"), Limit("token_bucket 2/1h"));
  EXPECT_EQ(denied.check("k").source, Source::kPolicy);
  Limiter raised(open_store(away + "&on_failure=raise"), Limit("token_bucket 2/1h"));
  EXPECT_THROW(raised.check("k"), StoreError);
  EXPECT_THAT(
      error_of([&] { open_store(away + "&on_failure=raise&size=1"); }),
      AllOf(HasSubstr("there is no option 'size'"), HasSubstr("on_failure"), HasSubstr("prefix")));
}

TEST(OpenStore, MayEndWithACallback) {
  auto store = open_store("redis://127.0.0.1:1?deadline=1ms");
  const std::weak_ptr<Store> ended = store;
  auto limiter = std::make_shared<Limiter>(std::move(store), Limit("fixed_window 5/1m"));
  std::promise<void> alone;
  limiter->async_check(
      "k", 1, [limiter, alone = alone.get_future().share()](const auto&, auto) { alone.wait(); });
  // The callback, which runs on the store's own thread, holds the last share of it.
  limiter.reset();
  alone.set_value();
  while (!ended.expired()) std::this_thread::yield();
}

// In a child of fork(), which has no timer thread yet that could destroy the store.
TEST(OpenStore, MayEndWithACallbackAlsoIfTheSystemCannotStartAThread) {
  EXPECT_EQ(in_child_process([] {
              std::promise<void> ended;
              const auto end = [&](const Limiter* last) {
                delete last;
                ended.set_value();
              };
              std::shared_ptr<Limiter> limiter(
                  new Limiter(open_store(kAway), Limit("fixed_window 5/1m")), end);
              std::promise<void> alone;
              limiter->async_check(
                  "k", 1, [limiter, alone = alone.get_future().share()](const auto&, const auto&) {
                    alone.wait();
                  });
              limiter.reset();
              const WithoutThreads without_threads;
              alone.set_value();
              ended.get_future().wait();
              return true;
            }),
            0);
}

}  // namespace
}  // namespace sluice
