#include "limiter/followers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/key_hash.h"
#include "sluice/limit.h"

namespace sluice {
namespace {

class FollowersTest : public testing::Test {
 protected:
  static constexpr Instant kSent = 1'700'000'000 * kSecondNs;

  Request request(std::string_view key) const {
    return {.limit = &limit_.definition(), .key = key};
  }
  void add(std::string_view key, Instant sent = kSent, bool allowed = true) {
    followers_.add({.request = request(key),
                    .key = hash_key(key, local_.secret()),
                    .answer = {.allowed = allowed},
                    .sent = sent,
                    .space = space_.get()});
  }

  // How much of the limit is left, at kSent.
  std::int64_t remaining(std::string_view key) {
    Request peek = request(key);
    peek.cost = 0;
    peek.space = space_.get();
    return local_.answer(peek, kSent).remaining;
  }

  const Limit limit_{"token_bucket 10/1h"};
  LocalStates local_{{.max_bytes = std::size_t{64} << 20, .shares = 1}};
  const std::shared_ptr<Space> space_ = local_.store().open_space(limit_.definition());
  Followers followers_{&local_};
};

TEST_F(FollowersTest, AreFollowedOnceTheyAreFlushed) {
  add("a");
  add("b");
  add("a");
  EXPECT_EQ(remaining("a"), 10);
  followers_.flush();
  EXPECT_EQ(remaining("a"), 8);
  EXPECT_EQ(remaining("b"), 9);
  followers_.flush();
  EXPECT_EQ(remaining("a"), 8);
}

TEST_F(FollowersTest, HaveABound) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i <= Followers::kMost; ++i) keys.push_back(std::to_string(i));
  for (const std::string& key : keys) add(key);
  EXPECT_EQ(remaining(keys.front()), 9) << "flushed to make room";
  EXPECT_EQ(remaining(keys.back()), 10);
  followers_.flush();
  EXPECT_EQ(remaining(keys.back()), 9);
}

TEST_F(FollowersTest, ExpectAsManyAsTheyHold) {
  std::size_t expected = 0;
  for (; followers_.may_expect(); ++expected) {
    followers_.expect(*space_, hash_key(std::to_string(expected), local_.secret()));
  }
  EXPECT_EQ(expected, Followers::kMost);
  followers_.fetch();
  EXPECT_TRUE(followers_.may_expect());
  EXPECT_FALSE(Followers(nullptr).may_expect());
}

TEST_F(FollowersTest, AreFollowedAtTheirInstant) {
  add("a", kSent - kHourNs);  // An hour gives back ten units.
  add("b", kSent);
  EXPECT_EQ(remaining("a"), 10);
  followers_.flush();
  EXPECT_EQ(remaining("a"), 10);
  EXPECT_EQ(remaining("b"), 9);
}

TEST_F(FollowersTest, WhatTheStoreDeniedChangesNothing) {
  add("a", kSent, false);
  followers_.flush();
  EXPECT_EQ(remaining("a"), 10);
}

}  // namespace
}  // namespace sluice
