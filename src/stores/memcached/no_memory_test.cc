// The system has no memory for what is judged: nobody who asks is lost with it. This program
// replaces operator new.

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <new>

#include "stores/memcached/carrier_under_test.h"

namespace {

// Of this thread, allocations of so many bytes or more fail.
thread_local std::size_t refused_bytes = std::numeric_limits<std::size_t>::max();

}  // namespace

void* operator new(std::size_t bytes) {
  void* const place = bytes < refused_bytes ? std::malloc(bytes) : nullptr;
  if (place == nullptr) throw std::bad_alloc();
  return place;
}
void operator delete(void* place) noexcept {
  std::free(place);
}
void operator delete(void* place, std::size_t) noexcept {
  std::free(place);
}

namespace sluice::memcached {
namespace {

constexpr std::size_t kEntries = 100;

class NoMemory : public MemcachedCarrierTest {
 protected:
  NoMemory() : MemcachedCarrierTest("sliding_log 101/1h") {}

  // A value with an entry for each unit, as a server answers it.
  std::string full_log() {
    KeyState state;
    for (std::size_t i = kEntries; i > 0; --i) {
      state.judge({.limit = &limit_.definition(), .key = "k"}, kNow - static_cast<Instant>(i));
    }
    std::string text;
    state.write(text);
    return "VA " + std::to_string(text.size()) + " c7 O0\r\n" + text + "\r\nMN\r\n";
  }
};

// The connection is then given up, and the key is judged anew on the next one.
TEST_F(NoMemory, WhoCouldNotBeJudgedIsJudgedAgain) {
  const std::string reply = full_log();
  const Ask& first = ask("k");
  const Ask& second = ask("k");
  const std::string read = sent();
  there([&] {
    Exchange* const exchange = std::exchange(exchange_, nullptr);
    refused_bytes = (kEntries + 1) * sizeof(RingEntry);  // There is room for what is read.
    EXPECT_THROW(exchange->on_reply(reply), std::bad_alloc);
    refused_bytes = std::numeric_limits<std::size_t>::max();
    exchange->on_lost(Loss::kUnknown, "the connection to a:1 was given up");
    lane().on_down("the connection to a:1 was given up");
    lane().on_up();
  });
  EXPECT_FALSE(first.inquiry.is_answered);
  EXPECT_EQ(sent(), read);
  answer(reply);
  sent();
  answer("HD c8 O0\r\nMN\r\n");
  ASSERT_TRUE(first.inquiry.is_answered);
  ASSERT_TRUE(second.inquiry.is_answered);
  EXPECT_TRUE(first.decision.allowed);
  EXPECT_FALSE(second.decision.allowed);
  EXPECT_EQ(second.decision.source, Source::kStore);
  there([&] { EXPECT_EQ(carrier_.under_way(), 0U); });
}

}  // namespace
}  // namespace sluice::memcached
