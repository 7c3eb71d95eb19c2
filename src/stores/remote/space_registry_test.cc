#include "stores/remote/space_registry.h"

#include <gtest/gtest.h>

#include <vector>

#include "sluice/limit.h"
#include "testing/error_of.h"

namespace sluice {
namespace {

class TestSpace final : public Space {
 public:
  TestSpace(std::string_view, const LimitDefinition& limit) : parts_(limit.parts) {}

  const std::vector<AnyPart>& parts() const { return parts_; }

 private:
  std::vector<AnyPart> parts_;
};

class Registry : public testing::Test {
 protected:
  std::shared_ptr<Space> open(std::string_view expression, std::string_view name) {
    return registry_.open(Limit(expression, name).definition());
  }
  std::string refusal(std::string_view expression, std::string_view name) {
    return error_of([&] { open(expression, name); });
  }

  SpaceRegistry<TestSpace> registry_{{.store = "some store", .prefix = "app"}};
};

TEST_F(Registry, ASpaceThatReplacesAnotherGoesOnWithItsAttachment) {
  struct Kept {};
  const Limit other("sliding_log 5/1h", "login");
  auto former = open("token_bucket 5/1h", "login");
  const auto kept = former->attachment<Kept>();
  const auto fresh = registry_.open(other.definition(), former);
  ASSERT_NE(fresh, former);
  former.reset();
  EXPECT_EQ(fresh->attachment<Kept>(), kept);
}

TEST_F(Registry, IsFullOnlyOfSpacesThatAreHeld) {
  std::vector<std::shared_ptr<Space>> held;
  for (std::size_t i = 0; i < decltype(registry_)::kMaxSpaces; ++i) {
    held.push_back(open("token_bucket 5/1h", "n" + std::to_string(i)));
  }
  EXPECT_EQ(refusal("token_bucket 5/1h", "more"),
            "some store: 16384 limits are in use, the most it can keep apart");
  EXPECT_EQ(open("token_bucket 5/1h", "n7"), held[7]);
  held.pop_back();
  EXPECT_NE(open("token_bucket 5/1h", "more"), nullptr);
}

}  // namespace
}  // namespace sluice
