// Permits as the script keeps them.

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>

#include "core/permits.h"
#include "testing/script_server.h"

namespace sluice::redis {
namespace {

class ScriptPermits : public ScriptTest {
 protected:
  static Request request(const RedisKeys& keys, Operation operation, PermitId permit) {
    Request asked = keys.request("a", 1, operation);
    asked.permit = permit;
    return asked;
  }
  Decision ask(const RedisKeys& keys, Operation operation, PermitId permit, Instant now) {
    const Decision decision = server_->decide(request(keys, operation, permit), now);
    EXPECT_EQ(server_->errors[0], "");
    return decision;
  }
  Decision acquire(const RedisKeys& keys, PermitId permit, Instant now) {
    return ask(keys, Operation::kTake, permit, now);
  }
  // As they stand in the value.
  std::vector<PermitEntry> entries(const RedisKeys& keys) {
    const std::string value = server_->ask({"GET", keys.name("a")});
    std::vector<PermitEntry> entries(value.size() / sizeof(PermitEntry));
    if (!entries.empty()) std::memcpy(entries.data(), value.data() + 11, value.size() - 11);
    return entries;
  }
};

TEST_F(ScriptPermits, AreFoundByTheirWholeNameAlone) {
  const RedisKeys keys("concurrency 9 lease=10s");
  // The end of one and the beginning of the next look like a third.
  acquire(keys, 0x1122'3344'0000'0000, kNow);
  acquire(keys, 7, kNow + 1);
  std::string value = server_->ask({"GET", keys.name("a")});
  for (const std::size_t at : {value.size() - 20, value.size() - 16, value.size() - 12}) {
    PermitId across = 0;
    std::memcpy(&across, value.data() + at, sizeof across);
    EXPECT_FALSE(ask(keys, Operation::kRelease, across, kNow + 1).allowed) << at;
  }
  EXPECT_EQ(entries(keys).size(), 2U);
}

TEST_F(ScriptPermits, AsManyAsThereMayBeAreKept) {
  const RedisKeys keys("concurrency 65536 lease=1h");
  acquire(keys, 1, kNow);
  // All but one of them as if they had been acquired one by one.
  std::string value = server_->ask({"GET", keys.name("a")}).substr(0, 11);
  for (std::int64_t i = 0; i < 65'535; ++i) {
    const PermitEntry entry{kNow + i + 1, static_cast<PermitId>(i + 10)};
    value.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  server_->ask({"SET", keys.name("a"), value});
  EXPECT_EQ(acquire(keys, 2, kNow).remaining, 0);
  EXPECT_EQ(acquire(keys, 3, kNow).retry_after.count(), 1);
  EXPECT_TRUE(ask(keys, Operation::kRelease, 40'000, kNow).allowed);
  EXPECT_TRUE(ask(keys, Operation::kRenew, 50'000, kNow).allowed);
  EXPECT_EQ(entries(keys).size(), 65'535U);
  EXPECT_EQ(acquire(keys, 3, kNow + 60'000).remaining, 65'536 - (5'535 + 3));
}

TEST_F(ScriptPermits, DamagedAndForeignValuesFailAlone) {
  const RedisKeys keys("concurrency 9 lease=10s");
  for (PermitId id = 1; id <= 3; ++id) acquire(keys, id, kNow);
  const std::string whole = server_->ask({"GET", keys.name("a")});
  for (const auto& value :
       {whole + "x", whole.substr(0, 12), whole.substr(0, 10), std::string("1")}) {
    expect_fails_alone(keys, value,
                       {request(keys, Operation::kTake, 9), request(keys, Operation::kRelease, 1)});
  }
  server_->ask({"LPUSH", keys.name("a"), "x"});
  EXPECT_EQ(server_->decide(request(keys, Operation::kTake, 9), kNow).source, Source::kUnavailable);
  EXPECT_TRUE(server_->errors[0].starts_with("WRONGTYPE")) << server_->errors[0];
}

TEST_F(ScriptPermits, AnyBytesForPermitsHarmNoOtherKey) {
  const RedisKeys keys("concurrency 9 lease=10s");
  for (PermitId id = 1; id <= 5; ++id) acquire(keys, id, kNow + static_cast<Instant>(id));
  const std::string whole = server_->ask({"GET", keys.name("a")});
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::string value = round % 2 == 0 ? whole : "\xf6" + whole.substr(11, 8) + whole;
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
      value[random() % value.size()] = static_cast<char>(random() % 3 == 0 ? 255 : random());
    }
    server_->ask({"SET", keys.name("a"), value});
    const Request requests[] = {keys.request("b", 0), request(keys, Operation::kTake, 9),
                                request(keys, Operation::kRenew, 2),
                                request(keys, Operation::kRelease, 3), keys.request("b", 0)};
    const auto decisions = server_->decide(requests, kNow + 9);
    EXPECT_EQ(decisions[0].source, Source::kStore);
    EXPECT_EQ(decisions[4].source, Source::kStore);
  }
}

TEST_F(ScriptPermits, AServerWithoutMemoryGivesNone) {
  const RedisKeys keys("concurrency 9 lease=10s");
  acquire(keys, 1, kNow);
  server_->ask({"CONFIG", "SET", "maxmemory", "1"});
  const Decision decision = server_->decide(request(keys, Operation::kTake, 2), kNow);
  server_->ask({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_EQ(decision.source, Source::kUnavailable);
  EXPECT_TRUE(server_->errors[0].starts_with("OOM")) << server_->errors[0];
  EXPECT_EQ(entries(keys).size(), 1U);
}

}  // namespace
}  // namespace sluice::redis
