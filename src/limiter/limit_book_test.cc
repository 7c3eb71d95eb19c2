#include "limiter/limit_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "algorithms/limit_definition.h"
#include "core/fault_under_test.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// Opens spaces by name, and is never asked to decide.
class SpacesOnly : public Store {
 public:
  std::shared_ptr<Space> open_space(const LimitDefinition& limit) override {
    if (full) throw StoreError("no room for another space");
    ++opened;
    auto& space = spaces_[limit.space];
    if (!space) space = std::make_shared<Space>();
    return space;
  }
  void decide(std::span<const Request>, Instant, std::span<Decision>) override { std::abort(); }
  Decision decide_all(std::span<const Request>, Instant) override { std::abort(); }
  Instant now() const override { return 0; }

  bool full = false;
  int opened = 0;

 private:
  std::map<std::string, std::shared_ptr<Space>> spaces_;
};

std::string fault_of_name(LimitBook& book, std::string_view text) {
  return fault_of<InvalidLimit>([&] { book.find(text); });
}

TEST(LimitBook, FindsNamedLimits) {
  LimitBook book(std::make_shared<SpacesOnly>());
  book.add(Limit("token_bucket 5/1m", "login"));
  const BoundLimit* found = book.find("login");
  EXPECT_EQ(found->limit.space(), "login");
  EXPECT_EQ(found->limit.expression(), "token_bucket 5/1m");
  EXPECT_EQ(book.find("login"), found);
}

TEST(LimitBook, RefusesANameTwice) {
  LimitBook book(std::make_shared<SpacesOnly>());
  book.add(Limit("token_bucket 5/1m", "login"));
  EXPECT_THROW(book.add(Limit("token_bucket 6/1m", "login")), InvalidLimit);
  EXPECT_EQ(book.find("login")->limit.expression(), "token_bucket 5/1m");
}

TEST(LimitBook, NamesWhatItCannotFind) {
  LimitBook book(std::make_shared<SpacesOnly>());
  EXPECT_EQ(fault_of_name(book, "signup"), "no limit is named 'signup'");
  EXPECT_EQ(fault_of_name(book, ""), "no limit is named ''");
  EXPECT_THAT(fault_of_name(book, "token_bucket 5/1x"), HasSubstr("a unit of time is missing"));
}

TEST(LimitBook, RemembersExpressions) {
  auto store = std::make_shared<SpacesOnly>();
  LimitBook book(store);
  const BoundLimit* found = book.find("token_bucket 100/s");
  EXPECT_EQ(book.find("token_bucket 100/s"), found);
  EXPECT_EQ(store->opened, 1);
  // Another way to write it leads to the same keys.
  EXPECT_EQ(book.find("token_bucket  100/1s")->space, found->space);
}

TEST(LimitBook, ForgetsWhatWasNotAskedForLately) {
  auto store = std::make_shared<SpacesOnly>();
  LimitBook book(store);
  book.find("token_bucket 1/1s");
  for (int i = 2; i <= 3'000; ++i) {
    book.find("token_bucket " + std::to_string(i) + "/1s");
    // Asked for every now and then, so it is never read again.
    if (i % 20 == 0) book.find("token_bucket 1/1s");
  }
  EXPECT_EQ(store->opened, 3'000);
  book.find("token_bucket 2/1s");
  EXPECT_EQ(store->opened, 3'001);
}

TEST(LimitBook, AFoundLimitStaysThroughABatch) {
  LimitBook book(std::make_shared<SpacesOnly>());
  for (int i = 1; i <= 63; ++i) book.find("token_bucket " + std::to_string(i) + "/1h");
  const BoundLimit* found = book.find("token_bucket 7/1s");
  for (int i = 1; i <= 64; ++i) book.find("token_bucket " + std::to_string(i) + "/1m");
  EXPECT_EQ(found->limit.expression(), "token_bucket 7/1s");
}

TEST(LimitBook, PassesOnThatTheStoreIsFull) {
  auto store = std::make_shared<SpacesOnly>();
  LimitBook book(store);
  store->full = true;
  EXPECT_THROW(book.find("token_bucket 5/1m"), StoreError);
  EXPECT_THROW(book.add(Limit("token_bucket 5/1m", "login")), StoreError);
  store->full = false;
  EXPECT_EQ(book.find("token_bucket 5/1m")->limit.expression(), "token_bucket 5/1m");
}

}  // namespace
}  // namespace sluice
