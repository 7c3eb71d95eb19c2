#include "advise/traffic.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::advise {
namespace {

constexpr std::size_t kSmall = std::size_t{4} << 20;
constexpr Instant kStart = 1'700'000'000'000'000'000;

void add(Traffic& traffic, const std::string& key, Instant now, std::int64_t cost = 1) {
  const std::string_view details[3] = {};
  traffic.add({.time_ns = now, .cost = cost, .key = key, .details = details});
}

TEST(Traffic, KeepsEveryKeyWhileThereIsRoom) {
  Traffic traffic;
  for (int i = 0; i < 1'000; ++i) add(traffic, std::to_string(i % 100), kStart + i * kSecondNs);
  EXPECT_FALSE(traffic.is_sample());
  ASSERT_EQ(traffic.keys().size(), 100U);
  for (const Traffic::Weighted& each : traffic.keys()) {
    EXPECT_EQ(each.weight, 1U);
    EXPECT_EQ(each.key->requests, 10U);
    EXPECT_EQ(each.key->last_ns - each.key->first_ns, 900 * kSecondNs);
  }
}

TEST(Traffic, APeekIsARequestThatNeedsNothing) {
  Traffic traffic;
  add(traffic, "a", kStart, 0);
  EXPECT_EQ(traffic.keys().at(0).key->requests, 1U);
  EXPECT_EQ(traffic.keys().at(0).key->peak(0), 0);
}

TEST(Traffic, ASampleIsUnbiasedByKey) {
  constexpr int kKeys = 20'000;
  Traffic traffic(kSmall);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kKeys; ++i) {
      // Every tenth key asks twice.
      const std::string key = "key" + std::to_string(i);
      const Instant now = kStart + (round * kKeys + i) * kSecondNs / 1'000;
      add(traffic, key, now);
      if (i % 10 == 0) add(traffic, key, now);
    }
  }
  EXPECT_TRUE(traffic.is_sample());
  std::uint64_t keys = 0;
  std::uint64_t twice = 0;
  for (const Traffic::Weighted& each : traffic.keys()) {
    keys += each.weight;
    // Each is kept from its first request on.
    EXPECT_TRUE(each.key->requests == 3 || each.key->requests == 6) << each.key->key;
    if (each.key->requests == 6) twice += each.weight;
  }
  EXPECT_NEAR(static_cast<double>(keys), kKeys, kKeys * 0.15);
  EXPECT_NEAR(static_cast<double>(twice), kKeys * 0.1, kKeys * 0.03);
}

// Their memory is that of the requests that are not peeks.
TEST(Traffic, KeysThatAlsoPeekBecomeASampleAsOthersDo) {
  constexpr int kKeys = 75;
  const auto becomes_sample = [](bool peeks) {
    Traffic traffic(kSmall / 4);
    for (int round = 0; round < 300; ++round) {
      for (int i = 0; i < kKeys; ++i) {
        const std::string key = "key" + std::to_string(i);
        const Instant now = kStart + round * 7 * kSecondNs;
        add(traffic, key, now);
        if (peeks) add(traffic, key, now, 0);
      }
    }
    return traffic.is_sample();
  };
  EXPECT_TRUE(becomes_sample(false));
  EXPECT_TRUE(becomes_sample(true));
}

TEST(Traffic, ABusyKeyIsKeptWithAnyHash) {
  Traffic traffic(kSmall);
  for (int i = 0; i < 33'000; ++i) {
    const Instant now = kStart + i * kSecondNs / 1'000;
    add(traffic, "key" + std::to_string(i), now);
    if (i < 30'000) continue;
    // They begin after the table has become a sample.
    for (const char* busy : {"w", "x", "y", "z"}) add(traffic, busy, now);
  }
  std::size_t found = 0;
  for (const Traffic::Weighted& each : traffic.keys()) {
    if (each.key->key.size() > 1) continue;
    ++found;
    EXPECT_EQ(each.weight, 1U);
    EXPECT_GE(each.key->requests, 2'000U);
  }
  EXPECT_EQ(found, 4U);
}

// 999 requests go before each is kept, 901 are measured.
TEST(Traffic, ABusyKeyIsBusyFromItsFirstRequestOn) {
  Traffic traffic(kSmall);
  Instant now = kStart;
  const auto ask = [&](const std::string& key) { add(traffic, key, now += kSecondNs / 1'000); };
  for (int i = 0; i < 60'000; ++i) ask("key" + std::to_string(i));
  for (int i = 0; i < 1'900; ++i) {
    for (const char* busy : {"u", "v", "w", "x", "y", "z"}) ask(busy);
  }
  std::size_t found = 0;
  for (const Traffic::Weighted& each : traffic.keys()) found += each.key->key.size() == 1 ? 1 : 0;
  EXPECT_EQ(found, 6U);
}

TEST(TextNumbers, AreBounded) {
  TextNumbers numbers;
  const std::uint32_t first = numbers.number("first");
  EXPECT_EQ(numbers.text(first), "first");
  for (std::size_t i = 0; i < TextNumbers::kMaxTexts; ++i) numbers.number(std::to_string(i));
  EXPECT_EQ(numbers.number("first"), first);
  EXPECT_EQ(numbers.number("one too many"), TextNumbers::kUnknown);
  EXPECT_EQ(numbers.text(TextNumbers::kUnknown), "");
}

TEST(FrequentTexts, FindsWhatIsMoreThanAQuarter) {
  FrequentTexts texts;
  for (std::uint32_t i = 0; i < 1'000; ++i) texts.add(i % 3 == 0 ? 1 : i + 2);
  EXPECT_EQ(texts.most_frequent().number, 1U);
  EXPECT_LE(texts.most_frequent().at_least, 334U);
}

}  // namespace
}  // namespace sluice::advise
