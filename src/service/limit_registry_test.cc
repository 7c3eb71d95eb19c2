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

LimitRegistry registry_of(const std::shared_ptr<Store>& store) {
  LimitHistory history;
  return {store, std::make_shared<const NamedLimits>(*store, ServedLimits{}, history)};
}

std::string error_of_name(LimitRegistry& registry, std::string_view text) {
  return error_of<InvalidLimit>([&] { registry.find(text); });
}

TEST(LimitRegistry, NamesWhatItCannotFind) {
  LimitRegistry registry = registry_of(std::make_shared<ScriptedStore>());
  EXPECT_EQ(error_of_name(registry, ""), "no limit is named ''");
  EXPECT_EQ(error_of_name(registry, std::string_view("a\0b", 3)), "no limit is named 'a\\x00b'");
  EXPECT_THAT(error_of_name(registry, "5/1m"), HasSubstr("an algorithm's name is missing"));
  EXPECT_THAT(error_of_name(registry, "token_bucket"), HasSubstr("a count is missing"));
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

}  // namespace
}  // namespace sluice
