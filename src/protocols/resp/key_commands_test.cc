#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sluice/health.h"
#include "sluice/store.h"
#include "testing/resp_connection.h"
#include "testing/served_store.h"

namespace sluice::resp {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The limits are of hours and days, so the time that passes changes nothing.
using KeyCommandsTest = CommandsTest<memory_store>;

TEST_F(KeyCommandsTest, ThrottlesAsRedisCell) {
  TestConnection still(thread_over(still_store()));
  const auto throttle = [&](const std::string& words) {
    return still.send("CL.THROTTLE " + words + "\r\n");
  };
  EXPECT_EQ(throttle("a 9 1 3600 4"), integers({0, 10, 6, -1, 14'400}));
  EXPECT_EQ(throttle("a 9 1 3600 6"), integers({0, 10, 0, -1, 36'000}));
  EXPECT_EQ(throttle("a 9 1 3600 2"), integers({1, 10, 0, 7'200, 36'000}));
  // Zero is a peek.
  EXPECT_EQ(throttle("b 4 1 3600 0"), integers({0, 5, 5, -1, 0}));
  EXPECT_EQ(throttle("b 4 1 3600 2"), integers({0, 5, 3, -1, 7'200}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(throttle("b 4 1 3600 0"), integers({0, 5, 3, -1, 7'200}));
  }
  // More than the limit never passes.
  EXPECT_EQ(throttle("c 4 1 3600 6"), integers({1, 5, 5, -1, 0}));
  EXPECT_EQ(throttle("c 4 1 3600 9223372036854775807"), integers({1, 5, 5, -1, 0}));
  // Less than zero is a refund.
  EXPECT_EQ(throttle("d 4 1 3600 5"), integers({0, 5, 0, -1, 18'000}));
  EXPECT_EQ(throttle("d 4 1 3600 -2"), integers({0, 5, 2, -1, 10'800}));
  EXPECT_EQ(throttle("d 4 1 3600 -9223372036854775808"), integers({0, 5, 5, -1, 0}));
  EXPECT_EQ(throttle("d 4 1 3600 -1"), integers({0, 5, 5, -1, 0}));
  // The limit may change.
  EXPECT_EQ(throttle("e 9 1 10 10"), integers({0, 10, 0, -1, 100}));
  EXPECT_EQ(throttle("e 19 1 10 0"), integers({0, 20, 10, -1, 100}));
  EXPECT_EQ(throttle("e 4 1 10 1"), integers({1, 5, 0, 60, 100}));
  for (const std::string& key :
       {std::string(), std::string("\r\n"), std::string("\0\xff", 2), std::string("a b")}) {
    EXPECT_EQ(still.send(array({"cl.Throttle", key, "4", "1", "3600"})),
              integers({0, 5, 4, -1, 3'600}));
  }
  // Another name of the command, and its other form, have the same keys.
  EXPECT_EQ(still.send("RL.THROTTLE b 4 1 3600\r\n"), integers({0, 5, 2, -1, 10'800}));
  EXPECT_EQ(still.send("THROTTLE b 5 1 3600\r\n"), integers({1, 5, 1, 14'400, 0}));
}

TEST_F(KeyCommandsTest, NamesTheNumberAtFaultAndChangesNothing) {
  run("CL.THROTTLE key 4 1 3600");
  const std::vector<std::string> names{"max_burst", "count", "period", "quantity"};
  for (std::size_t at = 0; at < names.size(); ++at) {
    for (const std::string bad : {"x", "", "1.5", " 1", "+", "9223372036854775808", "0x10"}) {
      std::vector<std::string> words{"CL.THROTTLE", "key", "1", "1", "1", "1"};
      words[2 + at] = bad;
      EXPECT_THAT(send(array(words)), StartsWith("-ERR " + names[at])) << bad;
    }
  }
  const auto error = [this](const std::string& words) { return run("CL.THROTTLE " + words); };
  for (const std::string words : {"key", "key 1 1", "key 1 1 1 1 1"}) {
    EXPECT_THAT(error(words), StartsWith("-ERR wrong number of arguments")) << words;
  }
  EXPECT_THAT(error("key -1 1 1"), StartsWith("-ERR max_burst"));
  EXPECT_THAT(error("key 1 0 1"), StartsWith("-ERR count"));
  EXPECT_THAT(error("key 1 1 0"), StartsWith("-ERR period"));
  EXPECT_THAT(error("key 9223372036854775807 1 9223372036854775807"), StartsWith("-ERR "));
  EXPECT_THAT(run("CL.THROTTLE key 4 1 3600 0"), StartsWith("*5\r\n:0\r\n:5\r\n:4\r\n"));
}

TEST_F(KeyCommandsTest, ThrottlesAsThrottlecrab) {
  auto fake = still_store();
  TestConnection over_fake(thread_over(fake));
  const std::string throttle = "THROTTLE user 3 30 60\r\n";
  EXPECT_EQ(over_fake.send(throttle), integers({1, 3, 2, 2, 0}));
  EXPECT_EQ(over_fake.send(throttle), integers({1, 3, 1, 4, 0}));
  EXPECT_EQ(over_fake.send(throttle), integers({1, 3, 0, 6, 0}));
  EXPECT_EQ(over_fake.send(throttle), integers({0, 3, 0, 6, 2}));
  *fake->clock += 500'000'000;
  EXPECT_EQ(over_fake.send("THROTTLE user 3 30 60 2\r\n"), integers({0, 3, 0, 6, 4}));
  EXPECT_EQ(over_fake.send("THROTTLE user 3 30 60 0\r\n"), integers({1, 3, 0, 6, 0}));
  EXPECT_EQ(over_fake.send("THROTTLE user 3 30 60 4\r\n"), integers({0, 3, 0, 6, -1}));
}

TEST_F(KeyCommandsTest, NamesTheThrottleArgumentAtFault) {
  const auto error = [this](const std::string& numbers) { return run("THROTTLE user " + numbers); };
  EXPECT_THAT(error("0 30 60"), StartsWith("-ERR max_burst must be at least 1\r"));
  EXPECT_THAT(error("3 0 60"), StartsWith("-ERR count must be at least 1\r"));
  EXPECT_THAT(error("3 30 60 -1"), StartsWith("-ERR quantity must be at least 0\r"));
  EXPECT_THAT(error("3 30 60 1 1"), StartsWith("-ERR wrong number of arguments"));
  EXPECT_EQ(run("RL.THROTTLE user 4 1"),
            "-ERR wrong number of arguments for 'rl.throttle' command\r\n");
}

TEST_F(KeyCommandsTest, CountsUpToABound) {
  const std::string options = " UBOUND 5 EX 3600 ENX";
  EXPECT_EQ(run("INCREX user" + options), integers({1, 1}));
  EXPECT_EQ(run("INCREX user BYINT 3" + options), integers({4, 3}));
  EXPECT_EQ(run("INCREX user BYINT 2" + options), integers({4, 0}));
  EXPECT_EQ(run("INCREX user BYINT 2 SATURATE" + options), integers({5, 1}));
  EXPECT_EQ(run("INCREX user BYINT 2 SATURATE" + options), integers({5, 0}));
  EXPECT_EQ(run("INCREX user" + options), integers({5, 0}));
  EXPECT_EQ(run("INCREX user BYINT 0" + options), integers({5, 0}));
  EXPECT_EQ(run("INCREX user BYINT 0 SATURATE" + options), integers({5, 0}));
  EXPECT_EQ(run("INCREX other BYINT 6" + options), integers({0, 0}));
  EXPECT_EQ(run("INCREX other SATURATE BYINT 6" + options), integers({5, 5}));
}

// on_failure=allow: what others have taken is not known.
TEST_F(KeyCommandsTest, CountsItsOwnWhereThePolicyAdmits) {
  const auto fake = still_store();
  TestConnection over_fake(thread_over(fake));
  fake->says = [](const Request& request) {
    const bool takes_up_to = request.operation == Operation::kTakeUpTo;
    return Decision{.allowed = true,
                    .source = Source::kPolicy,
                    .limit = 5,
                    .taken = takes_up_to ? request.cost : 0};
  };
  EXPECT_EQ(over_fake.send("INCREX user BYINT 2 UBOUND 5 EX 3600 ENX\r\n"), integers({2, 2}));
  EXPECT_EQ(over_fake.send("INCREX user BYINT 2 UBOUND 5 EX 3600 ENX SATURATE\r\n"),
            integers({2, 2}));
  fake->says = [](const Request&) { return Decision{.source = Source::kPolicy, .limit = 5}; };
  EXPECT_EQ(over_fake.send("INCREX user BYINT 2 UBOUND 5 EX 3600 ENX\r\n"), integers({5, 0}));
}

TEST_F(KeyCommandsTest, TakesTheOptionsOfIncrexInAnyOrder) {
  EXPECT_EQ(run("INCREX user ENX PX 3600000 UBOUND 5"), integers({1, 1}));
  EXPECT_EQ(run("increx user saturate ex 3600 enx byint +2 ubound 5"), integers({3, 2}));
  EXPECT_EQ(run("INCREX user UBOUND 9 EX 3600 ENX"), integers({4, 1}));
}

TEST_F(KeyCommandsTest, TellsACountAboveTheBound) {
  const std::string bound = "INCREX user EX 3600 ENX UBOUND ";
  run(bound + "9 BYINT 7");
  EXPECT_EQ(run(bound + "4"), integers({7, 0}));
  EXPECT_EQ(run(bound + "4 SATURATE"), integers({7, 0}));
  EXPECT_EQ(run(bound + "4 BYINT 0"), integers({7, 0}));
  EXPECT_EQ(run(bound + "8"), integers({8, 1}));
  EXPECT_EQ(run(bound + "8 BYINT 3 SATURATE"), integers({8, 0}));
  EXPECT_EQ(run("INCREX other EX 3600 ENX UBOUND 4 BYINT 5"), integers({0, 0}));
  // Of one batch, and of more than fit one; each with a request more.
  std::string pipeline;
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    pipeline += bound + "4\r\nPING\r\n";
    expected += integers({8, 0}) + "+PONG\r\n";
  }
  EXPECT_EQ(send(pipeline), expected);
  EXPECT_EQ(send("MULTI\r\n" + bound + "4\r\n" + bound + "9\r\nEXEC\r\n"),
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + integers({8, 0}) + integers({9, 1}));
  EXPECT_THAT(run("INFO commandstats"), HasSubstr("cmdstat_increx:calls=109,"));
}

TEST_F(KeyCommandsTest, TellsACountFromBeforeTheServer) {
  run("INCREX user UBOUND 9 EX 3600 ENX BYINT 7");
  TestConnection next(thread_over(store));
  EXPECT_EQ(next.send("INCREX user UBOUND 4 EX 3600 ENX\r\n"), integers({7, 0}));
}

// Also where the store answers one of the two requests, the units or the count.
TEST_F(KeyCommandsTest, RepliesOnceToAnIncrex) {
  const auto later = later_store();
  TestConnection over_later(thread_over(later));
  later->answers = ScriptedStore::Answers::kAtOnce;
  const std::string bound = " EX 3600 ENX UBOUND ";
  const std::string counted = "INCREX user BYINT 7" + bound + "9\r\n";
  EXPECT_EQ(over_later.send(counted + "INCREX lost" + bound + "4\r\nINCREX user" + bound + "4\r\n"),
            integers({7, 7}) +
                "-UNAVAILABLE redis://far.example:6379 has not answered within 10ms\r\n" +
                integers({7, 0}));
  for (const Source source : {Source::kUnavailable, Source::kPolicy}) {
    later->says = [source](const Request& asked) -> std::optional<Decision> {
      if (asked.cost != 0) return std::nullopt;
      return Decision{.allowed = true, .source = source, .limit = kMaxCount};
    };
    EXPECT_EQ(over_later.send("INCREX user" + bound + "4\r\n"), integers({4, 0}));
  }
  const std::string other = "INCREX other EX 7200 ENX UBOUND 2\r\n";
  over_later.send(other + other);
  later->says = [](const Request& asked) -> std::optional<Decision> {
    if ((asked.cost == 0) == (asked.key == "user")) return std::nullopt;
    return Decision{.source = Source::kUnavailable};
  };
  EXPECT_THAT(over_later.send("INCREX user" + bound + "4\r\n" + other),
              testing::EndsWith(integers({2, 0})));
}

TEST_F(KeyCommandsTest, KeepsTheKeysOfIncrexApart) {
  run("CL.THROTTLE user 4 1 3600");
  EXPECT_EQ(run("INCREX user UBOUND 5 EX 3600 ENX"), integers({1, 1}));
  EXPECT_EQ(run("INCREX user UBOUND 5 EX 7200 ENX"), integers({1, 1}));
  EXPECT_EQ(run("INCREX user UBOUND 5 EX 3600 ENX"), integers({2, 1}));
}

TEST_F(KeyCommandsTest, ThePeriodOfIncrexBeginsWithItsFirstUnit) {
  const auto fake = still_store();
  TestConnection over_fake(thread_over(fake));
  *fake->clock = 1'700'000'000'500'000'000;  // No boundary of a clock's second.
  const std::string increment = "INCREX user UBOUND 2 PX 1000 ENX\r\n";
  EXPECT_EQ(over_fake.send(increment), integers({1, 1}));
  *fake->clock += 999'999'999;
  EXPECT_EQ(over_fake.send(increment), integers({2, 1}));
  EXPECT_EQ(over_fake.send("INCREX user UBOUND 2 EX 1 ENX\r\n"), integers({2, 0}));
  *fake->clock += 1;
  EXPECT_EQ(over_fake.send(increment), integers({1, 1}));
}

TEST_F(KeyCommandsTest, RefusesOtherFormsOfIncrex) {
  const auto error = [this](const std::string& options) { return run("INCREX user " + options); };
  const std::string form =
      "-ERR INCREX is a limiter: INCREX key [BYINT n] UBOUND limit EX s|PX ms ENX [SATURATE], and ";
  EXPECT_EQ(error("EX 3600 ENX SATURATE"), form + "UBOUND is missing\r\n");
  EXPECT_EQ(error("UBOUND 5 BYINT 1 ENX"), form + "EX or PX is missing\r\n");
  EXPECT_EQ(error("UBOUND 5 EX 3600 BYINT 1"),
            form + "ENX is missing: a period begins with its first unit\r\n");
  EXPECT_EQ(error("UBOUND 5 EX 3600 ENX LBOUND 1"), form + "not with 'LBOUND' here\r\n");
  EXPECT_EQ(error("BYFLOAT 1.5 UBOUND 5 EX 3600 ENX"), form + "not with 'BYFLOAT' here\r\n");
  EXPECT_EQ(error("UBOUND 5 ENX ENX EX 3600"), form + "not with 'ENX' here\r\n");
  EXPECT_EQ(error("UBOUND 5 EX 3600 PX 1 ENX"), form + "the period has been given before\r\n");
  EXPECT_EQ(error("UBOUND 5 UBOUND 6 EX 1 ENX"), form + "UBOUND has been given before\r\n");
  EXPECT_EQ(error("UBOUND 5 EX 3600 ENX BYINT"), form + "not with 'BYINT' alone\r\n");
  EXPECT_EQ(error("BYINT -1 UBOUND 5 EX 3600 ENX"), "-ERR BYINT must be at least 0\r\n");
  EXPECT_EQ(error("UBOUND 0 EX 3600 ENX"), "-ERR UBOUND must be at least 1\r\n");
  EXPECT_EQ(error("UBOUND 9007199254740992 EX 3600 ENX"),
            "-ERR UBOUND must be at most 9007199254740991\r\n");
  EXPECT_EQ(error("UBOUND 5 EX 0 ENX"), "-ERR EX must be at least 1\r\n");
  EXPECT_EQ(error("UBOUND 5 PX 2305843009214 ENX"), "-ERR PX must be at most 2305843009213\r\n");
  EXPECT_EQ(error("UBOUND x EX 3600 ENX"), "-ERR UBOUND is not an integer or out of range\r\n");
}

TEST_F(KeyCommandsTest, KeepsABoundedNumberOfPeriodsApart) {
  const auto with_period = [this](std::size_t s) {
    return run("INCREX user UBOUND 5 EX " + std::to_string(s) + " ENX");
  };
  for (std::size_t i = 1; i <= IncrexPeriods::kMaxPeriods; ++i) {
    EXPECT_EQ(with_period(1'000 * i), integers({1, 1}));
  }
  EXPECT_THAT(with_period(1), HasSubstr("30 different periods"));
  EXPECT_EQ(with_period(1'000), integers({2, 1}));
}

// The store is full of keys. None of them denies by the numbers of its own commands, so the store
// evicts them for new keys. By the numbers of other commands they would deny, and stay.
TEST_F(KeyCommandsTest, AFullStoreAdmitsNewKeysWithOtherNumbers) {
  // No key is fresh again before the end.
  for (const std::string& numbers :
       {"CL.THROTTLE # 999 1000 3600000\r\nCL.THROTTLE # 6 7 3600000\r\n",
        "THROTTLE # 1000 1000 3600000\r\nTHROTTLE # 7 7 3600000\r\n",
        "INCREX # UBOUND 1000 EX 3600 ENX\r\nINCREX # UBOUND 7 EX 3600 ENX\r\n"}) {
    const auto small = open_store("memory:?max_bytes=1048576");
    TestConnection in_small_store(thread_over(small));
    const std::size_t line = numbers.find('\n') + 1;
    const auto ask = [&](std::string command, const std::string& key) {
      return in_small_store.send(command.replace(command.find('#'), 1, key));
    };
    std::string many;
    for (int i = 0; i < 50'000; ++i) {
      many += std::string(numbers, 0, line).replace(numbers.find('#'), 1, "k" + std::to_string(i));
    }
    in_small_store.send(many);
    ASSERT_GT(health(*small).evicted, 0U);
    const std::string admitted = ask(numbers.substr(line), "new");
    for (int i = 0; i < 2'000; ++i) {
      ASSERT_EQ(ask(numbers.substr(line), "new" + std::to_string(i)), admitted) << numbers << i;
    }
    EXPECT_EQ(health(*small).without_room, 0U) << numbers;
  }
}

TEST_F(KeyCommandsTest, DeletesKeys) {
  run("CL.THROTTLE a 4 1 3600 5");
  run("THROTTLE b 5 1 3600 5");
  run("INCREX c UBOUND 5 EX 3600 ENX");
  run("INCREX a UBOUND 5 PX 7200000 ENX");
  EXPECT_EQ(run("DEL a b c d a"), ":3\r\n");
  EXPECT_EQ(run("DEL a b c"), ":0\r\n");
  EXPECT_EQ(run("CL.THROTTLE a 4 1 3600 0"), integers({0, 5, 5, -1, 0}));
  EXPECT_EQ(run("INCREX a UBOUND 5 PX 7200000 ENX"), integers({1, 1}));
  EXPECT_EQ(run("DEL"), "-ERR wrong number of arguments for 'del' command\r\n");
}

// More requests than one batch has, in a transaction and before other commands.
TEST_F(KeyCommandsTest, DeletesManyKeysInAPipeline) {
  for (int i = 1; i <= 10; ++i) run("INCREX p UBOUND 5 EX " + std::to_string(i * 1'000) + " ENX");
  std::string keys;
  for (int i = 0; i < 60; ++i) {
    keys += " k" + std::to_string(i);
    if (i % 2 == 0) run("INCREX k" + std::to_string(i) + " UBOUND 5 EX 3000 ENX");
  }
  const std::string del = "DEL" + keys + "\r\n";
  EXPECT_EQ(send("PING\r\nDEL p\r\n" + del + "PING\r\n" + del),
            "+PONG\r\n:1\r\n:30\r\n+PONG\r\n:0\r\n");
  run("CL.THROTTLE k7 4 1 3600");
  EXPECT_EQ(send("MULTI\r\n" + del + del + "PING\r\nEXEC\r\nPING\r\n"),
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:1\r\n:0\r\n+PONG\r\n+PONG\r\n");
}

TEST_F(KeyCommandsTest, ResetsKeysOfClThrottle) {
  run("CL.THROTTLE a 4 1 3600 5");
  EXPECT_EQ(run("SLUICE.RESET cl a"), "+OK\r\n");
  EXPECT_EQ(run("CL.THROTTLE a 4 1 3600 0"), integers({0, 5, 5, -1, 0}));
  EXPECT_THAT(run("SLUICE.CHECK cl a"), StartsWith("-ERR no limit is named 'cl'"));
}

TEST_F(KeyCommandsTest, NeverSaysThatAKeyIsDeletedWhereTheStoreDidNot) {
  const auto later = later_store();
  decide_locally(*later, {.allowed = true});
  TestConnection over_later(thread_over(later));
  later->answers = ScriptedStore::Answers::kAtOnce;
  over_later.send("CL.THROTTLE a 4 1 3600\r\nCL.THROTTLE b 4 1 3600\r\n");
  EXPECT_EQ(over_later.send("DEL a lost\r\nDEL a local\r\nPING\r\n"),
            "-UNAVAILABLE redis://far.example:6379 has not answered within 10ms\r\n"
            "-UNAVAILABLE the store has not confirmed the change: it may or may not have changed "
            "the key\r\n"
            "+PONG\r\n");
  EXPECT_EQ(over_later.send("DEL lost b\r\nDEL b a\r\n"),
            "-UNAVAILABLE the store did not answer for every key\r\n:0\r\n");
}

}  // namespace
}  // namespace sluice::resp
