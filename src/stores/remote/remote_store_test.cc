#include "stores/remote/remote_store.h"

#include <gtest/gtest.h>

#include <vector>

#include "sluice/limit.h"
#include "testing/error_of.h"
#include "testing/remote_space.h"

namespace sluice {
namespace {

// Is never started.
class TestStore final : public RemoteStore<RemoteSpace> {
 public:
  TestStore() : RemoteStore("test", {}, std::chrono::seconds(1), "app") {}

 private:
  void check_together(std::span<const Request>) const override {}
};

class RemoteStoreSpaces : public testing::Test {
 protected:
  std::shared_ptr<Space> open(std::string_view expression, std::string_view name) {
    return store_.open_space(Limit(expression, name).definition());
  }
  std::string refusal(std::string_view expression, std::string_view name) {
    return error_of([&] { open(expression, name); });
  }

  TestStore store_;
};

TEST_F(RemoteStoreSpaces, OneThatReplacesAnotherGoesOnWithItsAttachment) {
  struct Kept {};
  const Limit other("sliding_log 5/1h", "login");
  auto former = open("token_bucket 5/1h", "login");
  const auto kept = former->attachment<Kept>();
  const auto fresh = store_.replace_space(former, other.definition());
  ASSERT_NE(fresh, former);
  former.reset();
  EXPECT_EQ(fresh->attachment<Kept>(), kept);
}

TEST_F(RemoteStoreSpaces, AreRefusedOnlyWhereThoseThatAreHeldAreTooMany) {
  std::vector<std::shared_ptr<Space>> held;
  for (std::size_t i = 0; i < TestStore::kMaxSpaces; ++i) {
    held.push_back(open("token_bucket 5/1h", "n" + std::to_string(i)));
  }
  EXPECT_EQ(refusal("token_bucket 5/1h", "more"),
            "test store: 16384 limits are in use, the most it can keep apart");
  EXPECT_EQ(open("token_bucket 5/1h", "n7"), held[7]);
  held.pop_back();
  EXPECT_NE(open("token_bucket 5/1h", "more"), nullptr);
}

}  // namespace
}  // namespace sluice
