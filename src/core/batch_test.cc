#include "core/batch.h"

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

TEST(Batch, OwnsTheKeysOfItsRequests) {
  std::vector<std::string> keys = {"a", std::string(100, 'b'), ""};
  std::vector<Request> requests;
  for (const std::string& key : keys) requests.push_back({.key = key, .cost = 3});
  const Batch batch(requests);
  const std::vector<std::string> copies = keys;
  for (std::string& key : keys) key.assign(key.size(), 'x');
  ASSERT_EQ(batch.requests().size(), 3U);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    EXPECT_EQ(batch.requests()[i].key, copies[i]);
    EXPECT_EQ(batch.requests()[i].cost, 3);
    EXPECT_EQ(batch.decisions()[i].source, Source::kUnavailable);
  }
}

TEST(Batch, OwnsTheDecisionsOfParts) {
  std::vector<Decision> wanted(3, Decision{.limit = 9});
  const std::vector<Request> requests = {{.key = "a", .parts = std::span(wanted).first(2)},
                                         {.key = "b"},
                                         {.key = "c", .parts = std::span(wanted).last(1)}};
  Batch batch(requests);
  ASSERT_EQ(batch.requests()[0].parts.size(), 2U);
  EXPECT_TRUE(batch.requests()[1].parts.empty());
  EXPECT_EQ(batch.requests()[2].parts[0].source, Source::kUnavailable);
  batch.requests()[0].parts[1] = {.remaining = 1};
  batch.requests()[2].parts[0] = {.remaining = 2};
  EXPECT_EQ(wanted[1].limit, 9);
  batch.copy_parts(requests);
  EXPECT_EQ(wanted[1].remaining, 1);
  EXPECT_EQ(wanted[2].remaining, 2);
}

TEST(Batch, AlwaysHasTheDecisionsOfThoseThatAreAskedTogether) {
  std::vector<Decision> wanted(1);
  const std::vector<Request> requests = {{.key = "a"}, {.key = "b", .parts = wanted}};
  Batch batch(requests, Batch::Mode::kTogether);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(batch.requests()[i].parts.size(), 1U);
    batch.requests()[i].parts[0] = {.remaining = static_cast<std::int64_t>(i)};
  }
  batch.copy_parts(requests);
  EXPECT_EQ(wanted[0].remaining, 1);
  const Batch alone(std::span(requests).first(1), Batch::Mode::kTogether);
  EXPECT_TRUE(alone.requests()[0].parts.empty());
}

TEST(Batch, KeepsItsOwnersUntilItIsCompleted) {
  const auto owner = std::make_shared<int>(1);
  const Request request{.key = "k"};
  auto batch = std::make_unique<Batch>(std::span(&request, 1));
  batch->keep(owner);
  int calls = 0;
  batch->completion = [&](Batch&) {
    ++calls;
    EXPECT_EQ(owner.use_count(), 2);
  };
  Batch::complete(std::move(batch));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace
}  // namespace sluice
