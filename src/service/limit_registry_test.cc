#include "service/limit_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "testing/error_of.h"
#include "testing/scripted_store.h"

namespace sluice {
namespace {

using testing::HasSubstr;

LimitRegistry registry_of(const std::shared_ptr<Store>& store, const ServedLimits& served = {}) {
  LimitHistory history;
  return {store, std::make_shared<const NamedLimits>(*store, served, history)};
}

const std::vector<Limit> kLogin{Limit("token_bucket 5/1m", "login")};

std::string error_of_name(LimitRegistry& registry, std::string_view text) {
  return error_of<InvalidLimit>([&] { registry.find(text); });
}

TEST(LimitRegistry, FindsNamedLimits) {
  LimitRegistry registry = registry_of(std::make_shared<ScriptedStore>(), kLogin);
  const std::shared_ptr<const RegisteredLimit> found = registry.find("login");
  EXPECT_EQ(found->limit.space(), "login");
  EXPECT_EQ(found->limit.expression(), "token_bucket 5/1m");
  EXPECT_EQ(registry.find("login"), found);
}

TEST(LimitRegistry, RefusesANameTwice) {
  const auto store = std::make_shared<ScriptedStore>();
  EXPECT_THROW(registry_of(store, std::vector<Limit>{kLogin[0], kLogin[0]}), InvalidLimit);
}

TEST(LimitRegistry, NamesWhatItCannotFind) {
  LimitRegistry registry = registry_of(std::make_shared<ScriptedStore>());
  EXPECT_EQ(error_of_name(registry, "signup"), "no limit is named 'signup'");
  EXPECT_EQ(error_of_name(registry, ""), "no limit is named ''");
  EXPECT_THAT(error_of_name(registry, "token_bucket 5/1x"), HasSubstr("the unit 'x' is unknown"));
  registry = registry_of(std::make_shared<ScriptedStore>(), kLogin);
  EXPECT_EQ(error_of_name(registry, "lgoin"), "no limit is named 'lgoin' (did you mean 'login'?)");
  EXPECT_THAT(error_of_name(registry, "token-bucket 5/1m"),
              HasSubstr("there is no algorithm 'token-bucket' (did you mean 'token_bucket'?); "));
  EXPECT_THAT(error_of_name(registry, "5/1m"), HasSubstr("an algorithm's name is missing"));
}

TEST(LimitRegistry, MayFindNamesOnly) {
  ServedLimits served(kLogin);
  served.expressions = false;
  LimitRegistry registry = registry_of(std::make_shared<ScriptedStore>(), served);
  EXPECT_EQ(registry.find("login")->limit.expression(), "token_bucket 5/1m");
  EXPECT_EQ(error_of_name(registry, "token_bucket 5/1m"), "this server answers named limits only");
  EXPECT_EQ(error_of_name(registry, "lgoin"), "no limit is named 'lgoin' (did you mean 'login'?)");
}

TEST(LimitRegistry, RemembersExpressions) {
  auto store = std::make_shared<ScriptedStore>();
  LimitRegistry registry = registry_of(store);
  const std::shared_ptr<const RegisteredLimit> found = registry.find("token_bucket 100/s");
  EXPECT_EQ(registry.find("token_bucket 100/s"), found);
  EXPECT_EQ(store->opened, 1);
  // Another way to write it leads to the same keys.
  EXPECT_EQ(registry.find("token_bucket  100/1s")->space, found->space);
}

TEST(LimitRegistry, ForgetsWhatWasNotAskedForLately) {
  auto store = std::make_shared<ScriptedStore>();
  LimitRegistry registry = registry_of(store);
  registry.find("token_bucket 1/1s");
  for (int i = 2; i <= 3'000; ++i) {
    registry.find("token_bucket " + std::to_string(i) + "/1s");
    // Asked for every now and then, so it is never read again.
    if (i % 20 == 0) registry.find("token_bucket 1/1s");
  }
  EXPECT_EQ(store->opened, 3'000);
  registry.find("token_bucket 2/1s");
  EXPECT_EQ(store->opened, 3'001);
}

TEST(LimitRegistry, AFoundLimitStaysThroughABatch) {
  LimitRegistry registry = registry_of(std::make_shared<ScriptedStore>());
  for (int i = 1; i <= 63; ++i) registry.find("token_bucket " + std::to_string(i) + "/1h");
  const std::shared_ptr<const RegisteredLimit> found = registry.find("token_bucket 7/1s");
  for (int i = 1; i <= 64; ++i) registry.find("token_bucket " + std::to_string(i) + "/1m");
  EXPECT_EQ(found->limit.expression(), "token_bucket 7/1s");
}

TEST(LimitRegistry, PassesOnThatTheStoreIsFull) {
  auto store = std::make_shared<ScriptedStore>();
  LimitRegistry registry = registry_of(store);
  store->refuses_spaces = true;
  EXPECT_THROW(registry.find("token_bucket 5/1m"), StoreError);
  EXPECT_THROW(registry_of(store, kLogin), StoreError);
  store->refuses_spaces = false;
  EXPECT_EQ(registry.find("token_bucket 5/1m")->limit.expression(), "token_bucket 5/1m");
}

}  // namespace
}  // namespace sluice
