#include "core/together.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "core/algorithm.h"

namespace sluice {
namespace {

Decision together(std::initializer_list<Decision> decisions) {
  Together all;
  for (const Decision& one : decisions) all.add(one);
  return all.decision();
}

TEST(TogetherTest, OneDecisionIsUnchanged) {
  const Decision admitted = admit({.limit = 5, .remaining = 2, .reset_ns = 7, .delay_ns = 3});
  const Decision denied = deny({.limit = 5, .remaining = 2, .retry_ns = 4, .reset_ns = 7});
  EXPECT_EQ(together({admitted}), admitted);
  EXPECT_EQ(together({denied}), denied);
}

TEST(TogetherTest, AdmitsIfAllDo) {
  const Decision a = admit({.limit = 100, .remaining = 9, .reset_ns = 50, .delay_ns = 1});
  const Decision b = admit({.limit = 10, .remaining = 3, .reset_ns = 20, .delay_ns = 6});
  Decision expected = admit({.limit = 10, .remaining = 3, .reset_ns = 20, .delay_ns = 6});
  EXPECT_EQ(together({b, a}), expected);
  expected.binding = 1;
  EXPECT_EQ(together({a, b}), expected);
}

TEST(TogetherTest, NumbersAreThoseOfTheFirstPartWithLeastRemaining) {
  const Decision a = admit({.limit = 7, .remaining = 3});
  const Decision b = admit({.limit = 8, .remaining = 3});
  EXPECT_EQ(together({a, b}).limit, 7);
  EXPECT_EQ(together({a, b}).binding, 0);
  EXPECT_EQ(together({b, a}).limit, 8);
}

TEST(TogetherTest, NumbersAreThoseOfTheDenialWithTheLongestRetryAfter) {
  const Decision peeked = admit({.limit = 7, .remaining = 1, .reset_ns = 90, .delay_ns = 5});
  const Decision soon = deny({.limit = 9, .remaining = 2, .retry_ns = 10, .reset_ns = 30});
  const Decision late = deny({.limit = 8, .remaining = 4, .retry_ns = 40, .reset_ns = 60});
  Decision expected = late;
  EXPECT_EQ(together({late, soon, peeked}), expected);
  expected.binding = 2;
  EXPECT_EQ(together({peeked, soon, late}), expected);
  EXPECT_EQ(together({soon, peeked, late}), expected);
}

TEST(TogetherTest, OfEqualDenialsTheFirstBinds) {
  const Decision a = deny({.limit = 7, .remaining = 3, .retry_ns = 40});
  const Decision b = deny({.limit = 8, .remaining = 2, .retry_ns = 40});
  EXPECT_EQ(together({a, b}), a);
  EXPECT_EQ(together({b, a}), b);
}

TEST(TogetherTest, NeverIsLongerThanAnyWait) {
  const Decision never = deny({.limit = 1, .remaining = 1});
  const Decision late = deny({.limit = 8, .retry_ns = 40});
  EXPECT_EQ(never.retry_after, kNever);
  EXPECT_EQ(together({never, late}).retry_after, kNever);
  EXPECT_EQ(together({late, never}).retry_after, kNever);
  EXPECT_EQ(together({late, never, late}).retry_after, kNever);
}

TEST(TogetherTest, KeepsASourceOtherThanTheStore) {
  Decision full = deny({.limit = 1});
  full.source = Source::kFull;
  const Decision admitted = admit({.limit = 8, .remaining = 2});
  EXPECT_EQ(together({admitted, full}).source, Source::kFull);
  EXPECT_EQ(together({full, admitted}).source, Source::kFull);
  EXPECT_EQ(together({admitted, admitted}).source, Source::kStore);
}

}  // namespace
}  // namespace sluice
