// What a carrier does with what it has written last, against a server whose every reply the test
// makes.

#include "stores/memcached/carrier_under_test.h"

namespace sluice::memcached {
namespace {

using testing::HasSubstr;

// Nobody else has written since: the value is known without being read.
TEST_F(MemcachedCarrierTest, WhatItHasWrittenLastIsWrittenOverInOneTrip) {
  ask("k");
  sent();
  answer("EN\r\nMN\r\n");
  sent();
  answer("HD c70 O0\r\nMN\r\n");
  for (std::uint64_t token = 70; token < 73; ++token) {
    const Ask& asked = ask("k");
    const std::string write = sent();
    EXPECT_THAT(write, testing::StartsWith("ms sluice:login:k "));
    EXPECT_THAT(write, HasSubstr(" C" + std::to_string(token) + " c O0\r\n"));
    EXPECT_FALSE(asked.inquiry.is_answered);
    answer("HD c" + std::to_string(token + 1) + " O0\r\nMN\r\n");
    EXPECT_EQ(asked.decision.remaining, static_cast<std::int64_t>(73 - token));
  }
  EXPECT_EQ(carrier_.under_way(), 0U);
  EXPECT_TRUE(is_quiet());
}

// Whoever comes before it is sent is judged with the others, and what one takes the next has not.
TEST_F(MemcachedCarrierTest, AWriteWithoutAReadIsForAllWhoWait) {
  write_first("k", 3, 70);
  const Ask& first = ask("k");
  const Ask& peek = ask("k", 0);
  const Ask& second = ask("k");
  const Ask& denied = ask("k");
  EXPECT_THAT(sent(), HasSubstr(" C70 c O0\r\n"));
  const Ask& later = ask("k", 0);
  answer("HD c71 O0\r\nMN\r\n");
  EXPECT_EQ(first.decision.remaining, 1);
  EXPECT_EQ(peek.decision.remaining, 1);
  EXPECT_TRUE(second.decision.allowed);
  EXPECT_FALSE(denied.decision.allowed);
  EXPECT_FALSE(later.inquiry.is_answered);
  EXPECT_EQ(sent(), kRead);
  answer(value(5, 71));
  EXPECT_EQ(later.decision.remaining, 0);
}

// Another process may have reset the key, or given back: nothing is told from memory.
TEST_F(MemcachedCarrierTest, ADenialIsNotTakenFromMemory) {
  write_first("k", 5, 70);
  const Ask& asked = ask("k");
  const Ask& peek = ask("k", 0);
  EXPECT_EQ(sent(), kRead);
  answer(value(2, 71));
  EXPECT_FALSE(asked.inquiry.is_answered);
  EXPECT_THAT(sent(), HasSubstr(" C71 c O0\r\n"));
  answer("HD c72 O0\r\nMN\r\n");
  EXPECT_EQ(asked.decision.remaining, 2);
  EXPECT_EQ(peek.decision.remaining, 2);
}

TEST_F(MemcachedCarrierTest, WhatSomebodyElseHasWrittenIsReadAndJudged) {
  write_first("k", 1, 70);
  const Ask& asked = ask("k", 2);
  EXPECT_THAT(sent(), HasSubstr(" C70 "));
  answer("EX O0\r\nMN\r\n");
  EXPECT_FALSE(asked.inquiry.is_answered);
  EXPECT_EQ(sent(), kRead);
  answer(value(4, 90));
  EXPECT_TRUE(asked.inquiry.is_answered);
  EXPECT_FALSE(asked.decision.allowed);
}

// A key that others write as well is read first, until nobody else has written since.
TEST_F(MemcachedCarrierTest, AKeyOfOthersIsReadFirst) {
  write_first("k", 1, 70);
  ask("k");
  sent();
  answer("EX O0\r\nMN\r\n");
  std::uint64_t own = 0;
  for (const std::uint64_t found : {80, 90, 91}) {
    const Ask& asked = ask("k");
    EXPECT_EQ(sent(), kRead);
    answer(value(1, found));
    EXPECT_THAT(sent(), HasSubstr(" C" + std::to_string(found) + " "));
    own = found + 1;
    answer("HD c" + std::to_string(own) + " O0\r\nMN\r\n");
    EXPECT_TRUE(asked.inquiry.is_answered);
  }
  ask("k");
  EXPECT_THAT(sent(), HasSubstr(" C" + std::to_string(own) + " "));
  answer("HD c99 O0\r\nMN\r\n");
}

TEST_F(MemcachedCarrierTest, WhatTheServerHasForgottenBeginsAnew) {
  write_first("k", 4, 70);
  const Ask& asked = ask("k");
  EXPECT_THAT(sent(), HasSubstr(" C70 "));
  answer("NF O0\r\nMN\r\n");
  EXPECT_EQ(sent(), kRead);
  answer("EN\r\nMN\r\n");
  EXPECT_THAT(sent(), HasSubstr(" ME c "));
  answer("HD c2 O0\r\nMN\r\n");
  EXPECT_EQ(asked.decision.remaining, 4);
}

// A peek has seen it: an admission need not guess, and lose, before it reads.
TEST_F(MemcachedCarrierTest, WhatWasFoundGoneIsForgotten) {
  write_first("k", 4, 70);
  ask("k", 0);
  EXPECT_EQ(sent(), kRead);
  answer("EN\r\nMN\r\n");
  const Ask& asked = ask("k");
  ASSERT_EQ(sent(), kRead);
  answer("EN\r\nMN\r\n");
  EXPECT_THAT(sent(), HasSubstr(" ME c "));
  answer("HD c2 O0\r\nMN\r\n");
  EXPECT_EQ(asked.decision.remaining, 4);
}

TEST_F(MemcachedCarrierTest, AnotherConnectionKnowsOfNoWrite) {
  write_first("k", 1, 70);
  there([&] {
    lane().on_down("memcached a:1 has closed the connection");
    lane().on_up();
  });
  ask("k");
  EXPECT_EQ(sent(), kRead);
  answer("EN\r\nMN\r\n");
}

// It may have been carried out, or not: what stands there is not known.
TEST_F(MemcachedCarrierTest, AWriteWithoutAReadNorAReplyIsNotRepeated) {
  write_first("k", 1, 70);
  const Ask& lost = ask("k");
  EXPECT_THAT(sent(), HasSubstr(" C70 "));
  lose(Loss::kUnknown);
  EXPECT_EQ(lost.decision.source, Source::kUnanswered);
  there([&] { lane().on_up(); });
  EXPECT_EQ(carrier_.under_way(), 0U);
  const Ask& unsent = ask("k");
  EXPECT_EQ(sent(), kRead);
  lose(Loss::kUnsent);
  EXPECT_FALSE(unsent.inquiry.is_answered);
  there([&] { lane().on_up(); });
  EXPECT_EQ(sent(), kRead);
}

TEST_F(MemcachedCarrierTest, AfterAnErrorTheKeyIsRead) {
  write_first("k", 1, 70);
  const Ask& asked = ask("k");
  EXPECT_THAT(sent(), HasSubstr(" C70 "));
  answer("SERVER_ERROR out of memory storing object\r\nMN\r\n");
  EXPECT_THAT(asked.inquiry.fault, HasSubstr("out of memory"));
  ask("k");
  EXPECT_EQ(sent(), kRead);
}

TEST_F(MemcachedCarrierTest, AResetOfWhatItHasWrittenTakesOneTrip) {
  write_first("k", 3, 70);
  const Ask& reset = ask("k", 1, Operation::kReset);
  EXPECT_EQ(sent(), "md sluice:login:k C70 O0\r\nmn\r\n");
  EXPECT_FALSE(reset.inquiry.is_answered);
  answer("HD O0\r\nMN\r\n");
  EXPECT_EQ(reset.decision.remaining, 5);
  ask("k");
  EXPECT_EQ(sent(), kRead);
}

}  // namespace
}  // namespace sluice::memcached
