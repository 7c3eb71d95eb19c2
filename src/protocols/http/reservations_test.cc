#include "protocols/http/reservations.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace sluice::http {
namespace {

using Found = Reservations::Found;

constexpr Instant kStart = 1'700'000'000 * kSecondNs;

std::string hold(Reservations& reservations, Instant now, const std::string& key = "k") {
  return reservations.hold(*reservations.take_place(key.size(), now), {.key = key}, now);
}

// Commits the reservation, if that is possible.
Found take(Reservations& reservations, const std::string& name, Instant now) {
  auto begun = reservations.begin_commit(name, now);
  if (begun.commit) begun.commit->set_asked();
  return begun.found;
}

TEST(ReservationsTest, KnowsItsOwnNamesAlone) {
  Reservations reservations;
  Reservations another;
  std::string name = hold(reservations, kStart);
  EXPECT_EQ(take(another, name, kStart), Found::kElsewhere);
  EXPECT_EQ(take(reservations, "", kStart), Found::kUnknown);
  EXPECT_EQ(take(reservations, name + "0", kStart), Found::kUnknown);
  std::string guessed = name;
  guessed.back() = guessed.back() == '0' ? '1' : '0';
  EXPECT_EQ(take(reservations, guessed, kStart), Found::kUnknown);
  // A guess does not reveal either whether a number has been committed.
  const std::string committed = hold(reservations, kStart);
  ASSERT_EQ(take(reservations, committed, kStart), Found::kHeld);
  guessed = committed;
  guessed.back() = guessed.back() == '0' ? '1' : '0';
  EXPECT_EQ(take(reservations, guessed, kStart), Found::kUnknown);
  EXPECT_EQ(take(reservations, committed, kStart), Found::kCommitted);
  std::string later = name;
  later[17] = 'f';
  EXPECT_EQ(take(reservations, later, kStart), Found::kUnknown);
  EXPECT_EQ(take(reservations, name, kStart), Found::kHeld);
}

TEST(ReservationsTest, MayExpireDuringTheCommit) {
  Reservations reservations;
  const Instant end = kStart + 2 * Reservations::kExpiresNs;
  for (const bool is_done : {true, false}) {
    const std::string other = hold(reservations, kStart);
    auto begun = reservations.begin_commit(other, kStart);
    ASSERT_EQ(begun.found, Found::kHeld);
    EXPECT_EQ(take(reservations, other, end), Found::kUnknown);
    if (!is_done) begun.commit->put_back();
    EXPECT_EQ(take(reservations, other, end), Found::kUnknown);
  }
}

TEST(ReservationsTest, ForgetsThemInTime) {
  Reservations reservations;
  std::vector<std::string> names;
  for (int i = 0; i < 10; ++i) names.push_back(hold(reservations, kStart + i * kSecondNs));
  const Instant end = kStart + Reservations::kExpiresNs;
  EXPECT_EQ(take(reservations, names[0], end - 1), Found::kHeld);
  EXPECT_EQ(take(reservations, names[1], end + kSecondNs - 1), Found::kHeld);
  EXPECT_EQ(take(reservations, names[2], end + 3 * kSecondNs), Found::kUnknown);
  EXPECT_EQ(take(reservations, names[0], end + 3 * kSecondNs), Found::kUnknown);
  EXPECT_EQ(take(reservations, names[9], end + 3 * kSecondNs), Found::kHeld);
}

// However many they are, of which a call forgets only some.
TEST(ReservationsTest, ManyExpireTogether) {
  Reservations reservations;
  const std::string first = hold(reservations, kStart);
  std::string last;
  for (std::size_t i = 1; i < Reservations::kMost; ++i) last = hold(reservations, kStart);
  const Instant end = kStart + 2 * Reservations::kExpiresNs;
  EXPECT_EQ(take(reservations, last, end), Found::kUnknown);
  EXPECT_EQ(take(reservations, first, end), Found::kUnknown);
  const std::string next = hold(reservations, end);
  EXPECT_EQ(take(reservations, next, end), Found::kHeld);
  EXPECT_EQ(take(reservations, last, end), Found::kUnknown);
}

// Of reservations, and of the bytes of their keys.
TEST(ReservationsTest, HoldsABoundedNumber) {
  for (const auto& [most, key_bytes] :
       {std::pair(Reservations::kMost, std::size_t{1}), {1, Reservations::kMostKeyBytes}}) {
    SCOPED_TRACE(key_bytes);
    Reservations reservations;
    const std::string key(key_bytes, 'k');
    const std::string first = hold(reservations, kStart, key);
    for (std::size_t i = 1; i < most; ++i) hold(reservations, kStart, key);
    EXPECT_FALSE(reservations.take_place(1, kStart));
    EXPECT_EQ(take(reservations, first, kStart), Found::kHeld);
    { EXPECT_TRUE(reservations.take_place(key_bytes, kStart)); }
    // A place that was not used is free again.
    EXPECT_TRUE(reservations.take_place(key_bytes, kStart));
    hold(reservations, kStart, key);
    EXPECT_FALSE(reservations.take_place(1, kStart));
    EXPECT_TRUE(reservations.take_place(key_bytes, kStart + 2 * Reservations::kExpiresNs));
  }
}

}  // namespace
}  // namespace sluice::http
