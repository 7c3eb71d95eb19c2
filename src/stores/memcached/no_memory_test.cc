// The system has no memory for what is judged: nobody who asks is lost with it. This program
// replaces operator new.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <limits>
#include <new>

#include "servers/memcached_server.h"
#include "stores/memcached/carrier_under_test.h"
#include "stores/memcached/last_writes.h"
#include "stores/memcached/memcached_store.h"

namespace {

constexpr std::size_t kNoneRefused = std::numeric_limits<std::size_t>::max();

// Allocations of so many bytes or more fail.
std::atomic<std::size_t> refused_bytes = kNoneRefused;

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

// A value with an entry for each unit.
std::string full_log(const Limit& limit, std::size_t entries) {
  KeyState state;
  for (std::size_t i = entries; i > 0; --i) {
    state.judge({.limit = &limit.definition(), .key = "k"}, kNow - static_cast<Instant>(i));
  }
  std::string text;
  state.write(text);
  return text;
}

class NoMemory : public MemcachedCarrierTest {
 protected:
  NoMemory() : MemcachedCarrierTest("sliding_log 101/1h") {}
};

// The connection is then given up, and the key is judged anew on the next one.
TEST_F(NoMemory, WhoCouldNotBeJudgedIsJudgedAgain) {
  const std::string text = full_log(limit_, kEntries);
  const std::string reply =
      "VA " + std::to_string(text.size()) + " c7 O0\r\n" + text + "\r\nMN\r\n";
  const Ask& first = ask("k");
  const Ask& second = ask("k");
  const std::string read = sent();
  there([&] {
    Exchange* const exchange = std::exchange(exchange_, nullptr);
    refused_bytes = (kEntries + 1) * sizeof(RingEntry);  // There is room for what is read.
    EXPECT_NO_THROW(exchange->on_reply(reply));
    refused_bytes = kNoneRefused;
    EXPECT_EQ(reconnects_, 1);
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

// They are told of it once there is memory for what is said.
TEST_F(NoMemory, WhoCouldNotBeToldOfADamagedValueIsToldLater) {
  const std::string key(200, 'k');
  const Ask& first = ask(key);
  const Ask& second = ask(key);
  const std::string read = sent();
  constexpr std::string_view kReply = "VA 5 c7 O0\r\nhello\r\nMN\r\n";
  there([&] {
    Exchange* const exchange = std::exchange(exchange_, nullptr);
    refused_bytes = key.size();
    EXPECT_NO_THROW(exchange->on_reply(kReply));
    refused_bytes = kNoneRefused;
    EXPECT_EQ(reconnects_, 1);
    ASSERT_EQ(carrier_.under_way(), 1U);
  });
  EXPECT_EQ(sent(), read);
  answer(kReply);
  for (const Ask* one : {&first, &second}) {
    ASSERT_TRUE(one->inquiry.is_answered);
    EXPECT_TRUE(one->inquiry.fault.ends_with("or none that this store has written"));
  }
  there([&] { EXPECT_EQ(carrier_.under_way(), 0U); });
}

// A turn that ends is kept to be used again: that needs none, whatever their number.
TEST_F(NoMemory, WhoIsAnsweredIsNotToldOfALoss) {
  constexpr int kKeys = 129;
  std::deque<std::string> keys;
  std::string misses;
  std::string writes;
  for (int i = 0; i < kKeys; ++i) {
    ask(keys.emplace_back("k" + std::to_string(i)));
    misses += "EN O" + std::to_string(i) + "\r\n";
    writes += "HD O" + std::to_string(i) + "\r\n";
  }
  sent();
  answer(misses + "MN\r\n");
  sent();
  writes += "MN\r\n";
  there([&] {
    Exchange* const exchange = std::exchange(exchange_, nullptr);
    refused_bytes = kKeys * sizeof(void*);
    exchange->on_reply(writes);
    refused_bytes = kNoneRefused;
  });
  EXPECT_EQ(reconnects_, 0);
  for (const Ask& asked : asks_) EXPECT_TRUE(asked.decision.allowed);
  there([&] { EXPECT_EQ(carrier_.under_way(), 0U); });
}

// On a connection to a real server: it is used again as soon as there is memory.
TEST(NoMemoryForAReply, CostsTheServerNothingForLater) {
  constexpr std::size_t kMany = 10'000;
  const servers::MemcachedServer server;
  const Limit limit("sliding_log 20000/1h", "login");
  const std::string text = full_log(limit, kMany);
  server.command("ms sluice:login:k " + std::to_string(text.size()) + " T3600\r\n" + text + "\r\n");
  MemcachedStore store({.servers = {{.host = "127.0.0.1", .port = server.port()}},
                        .deadline = std::chrono::seconds(1)});
  const auto space = store.open_space(limit.definition());
  const auto take = [&](std::string_view key) {
    const Request request{.limit = &limit.definition(), .space = space.get(), .key = key};
    Decision decision;
    store.decide({&request, 1}, kNow, {&decision, 1});
    return decision.remaining;
  };
  EXPECT_EQ(take("other"), 19'999);
  refused_bytes = kMany * sizeof(RingEntry);
  // For longer than a server may be silent.
  for (int i = 0; i < 3; ++i) EXPECT_THROW(take("k"), StoreError);
  refused_bytes = kNoneRefused;
  EXPECT_EQ(take("other"), 19'998);
  EXPECT_EQ(take("k"), 9'999);
}

// What is kept of the key's last write stays as it was, and is counted as what it is.
TEST(LastWritesWithoutMemory, CountWhatTheyKeep) {
  constexpr std::size_t kKept = 1'000;
  std::uint64_t token = 0;
  const auto write = [&](std::string_view value) {
    return LastWrites::Write{.value = value, .token = ++token, .until = kEndOfTime};
  };
  LastWrites writes;
  writes.remember({"k", 1}, write(std::string(kKept, 'a')));
  const std::string more(5 * kKept, 'b');
  refused_bytes = more.size();
  EXPECT_THROW(writes.remember({"k", 1}, write(more)), std::bad_alloc);
  EXPECT_THROW(writes.remember({"new", 1}, write(more)), std::bad_alloc);
  refused_bytes = kNoneRefused;
  const auto kept = writes.find({"k", 1}, kNow);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->value.size(), kKept);
  EXPECT_EQ(kept->token, 1U);
  EXPECT_FALSE(writes.find({"new", 1}, kNow));
  writes.forget({"k", 1});
  writes.remember({"k", 1}, write("c"));  // Were too much counted, it would make room for ever.
  EXPECT_TRUE(writes.find({"k", 1}, kNow));
}

}  // namespace
}  // namespace sluice::memcached
