// Against a server whose every reply the test makes: no sockets.

#include "stores/memcached/carrier.h"

#include <vector>

#include "stores/memcached/carrier_under_test.h"

namespace sluice::memcached {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST_F(MemcachedCarrierTest, TakesTwoTripsForAFreshKey) {
  const Ask& asked = ask("k");
  EXPECT_EQ(kicks_, 1);
  EXPECT_EQ(sent(), "mg sluice:login:k v c O0\r\nmn\r\n");
  answer("EN\r\nMN\r\n");
  EXPECT_FALSE(asked.inquiry.is_answered);
  EXPECT_THAT(sent(), testing::StartsWith("ms sluice:login:k "));
  answer("HD O0\r\nMN\r\n");
  EXPECT_TRUE(asked.inquiry.is_answered);
  EXPECT_EQ(asked.decision.remaining, 4);
  EXPECT_EQ(carrier_.under_way(), 0U);
  EXPECT_TRUE(is_quiet());
}

TEST_F(MemcachedCarrierTest, AFreshKeyIsAddedAndAKnownOneReplaced) {
  ask("k");
  sent();
  answer("EN O0\r\nMN\r\n");
  const std::string add = sent();
  EXPECT_THAT(add, HasSubstr(" ME c O0\r\n"));
  EXPECT_THAT(add, testing::Not(HasSubstr(" C")));
  answer("HD O0\r\nMN\r\n");
  const Ask& second = ask("k");
  sent();
  answer(value(1, 77));
  EXPECT_THAT(sent(), HasSubstr(" C77 c O0\r\n"));
  answer("HD O0\r\nMN\r\n");
  EXPECT_EQ(second.decision.remaining, 3);
}

TEST_F(MemcachedCarrierTest, ADenialAndAPeekTakeOneTrip) {
  const Ask& denied = ask("k");
  const Ask& peek = ask("k", 0);
  sent();
  answer(value(5, 77));
  EXPECT_TRUE(denied.inquiry.is_answered && peek.inquiry.is_answered);
  EXPECT_FALSE(denied.decision.allowed);
  EXPECT_TRUE(peek.decision.allowed);
  EXPECT_TRUE(is_quiet());
}

TEST_F(MemcachedCarrierTest, WhoAsksForOneKeyIsJudgedTogetherInOrder) {
  std::vector<const Ask*> asked;
  for (int i = 0; i < 7; ++i) asked.push_back(&ask("k"));
  EXPECT_EQ(sent(), "mg sluice:login:k v c O0\r\nmn\r\n");
  answer("EN\r\nMN\r\n");
  sent();
  answer("HD O0\r\nMN\r\n");
  for (int i = 0; i < 7; ++i) {
    EXPECT_TRUE(asked[static_cast<std::size_t>(i)]->inquiry.is_answered);
    EXPECT_EQ(asked[static_cast<std::size_t>(i)]->decision.allowed, i < 5) << i;
  }
  EXPECT_TRUE(is_quiet());
}

TEST_F(MemcachedCarrierTest, WhoComesLaterWaitsForTheNextRound) {
  const Ask& first = ask("k");
  sent();
  answer("EN\r\nMN\r\n");
  sent();
  const Ask& second = ask("k");
  answer("HD O0\r\nMN\r\n");
  EXPECT_TRUE(first.inquiry.is_answered);
  EXPECT_FALSE(second.inquiry.is_answered);
  EXPECT_EQ(sent(), "mg sluice:login:k v c O0\r\nmn\r\n");
  answer(value(1, 5));
  sent();
  answer("HD O0\r\nMN\r\n");
  EXPECT_EQ(second.decision.remaining, 3);
}

TEST_F(MemcachedCarrierTest, KeysTravelTogether) {
  const Ask& a = ask("a");
  const Ask& b = ask("b");
  EXPECT_EQ(sent(), "mg sluice:login:a v c O0\r\nmg sluice:login:b v c O1\r\nmn\r\n");
  answer("EN O0\r\nEN O1\r\nMN\r\n");
  const Ask& c = ask("c");
  const std::string next = sent();
  EXPECT_THAT(next, HasSubstr("ms sluice:login:a "));
  EXPECT_THAT(next, HasSubstr("ms sluice:login:b "));
  EXPECT_THAT(next, HasSubstr("mg sluice:login:c v c O2\r\nmn\r\n"));
  answer("HD O0\r\nHD O1\r\nEN O2\r\nMN\r\n");
  EXPECT_TRUE(a.inquiry.is_answered && b.inquiry.is_answered);
  EXPECT_FALSE(c.inquiry.is_answered);
}

// Whatever the lost race looks like, the key is read again and judged by what the winner wrote.
TEST_F(MemcachedCarrierTest, ALostRaceIsJudgedByWhatTheWinnerWrote) {
  for (const std::string_view lost : {"EX O0", "NF O0", "NS O0"}) {
    const Ask& first = ask("k", 2);
    const Ask& second = ask("k", 2);
    for (std::uint64_t round = 0; round < 10; ++round) {
      EXPECT_EQ(sent(), "mg sluice:login:k v c O0\r\nmn\r\n");
      answer(value(1, 100 + round));
      EXPECT_THAT(sent(), HasSubstr(" C" + std::to_string(100 + round) + " "));
      answer(std::string(lost) + "\r\nMN\r\n");
      EXPECT_FALSE(first.inquiry.is_answered);
    }
    sent();
    answer(value(2, 9));
    sent();
    answer("HD O0\r\nMN\r\n");
    EXPECT_EQ(first.decision.remaining, 1);
    EXPECT_FALSE(second.decision.allowed);
    EXPECT_EQ(carrier_.under_way(), 0U);
  }
}

TEST_F(MemcachedCarrierTest, AWriteWithoutAReplyIsNotRepeated) {
  const Ask& first = ask("k");
  sent();
  answer("EN\r\nMN\r\n");
  sent();
  const Ask& second = ask("k");
  lose(Loss::kUnknown);
  EXPECT_TRUE(first.inquiry.is_answered);
  EXPECT_EQ(first.decision.source, Source::kUnanswered);
  EXPECT_THAT(first.inquiry.fault, HasSubstr("has closed the connection"));
  EXPECT_FALSE(second.inquiry.is_answered);
  there([&] { lane().on_up(); });
  EXPECT_EQ(sent(), "mg sluice:login:k v c O0\r\nmn\r\n");
}

// A server that comes back counts its tokens from 1, so an old one might fit a new value.
TEST_F(MemcachedCarrierTest, ATokenIsNotTakenToAnotherConnection) {
  const Ask& asked = ask("k");
  sent();
  answer(value(1, 3));
  there([&] {
    lane().on_down("memcached a:1 has closed the connection");
    lane().on_up();
  });
  EXPECT_EQ(sent(), "mg sluice:login:k v c O0\r\nmn\r\n");
  answer("EN\r\nMN\r\n");
  EXPECT_THAT(sent(), HasSubstr(" ME "));
  answer("HD O0\r\nMN\r\n");
  EXPECT_EQ(asked.decision.remaining, 4);
}

TEST_F(MemcachedCarrierTest, AWriteThatNeverLeftIsBegunAnew) {
  const Ask& asked = ask("k");
  sent();
  answer(value(1, 3));
  sent();
  lose(Loss::kUnsent);
  there([&] { lane().on_up(); });
  EXPECT_EQ(sent(), "mg sluice:login:k v c O0\r\nmn\r\n");
  EXPECT_FALSE(asked.inquiry.is_answered);
}

TEST_F(MemcachedCarrierTest, AReadThatIsLostIsRepeated) {
  const Ask& asked = ask("k");
  sent();
  lose(Loss::kUnknown);
  there([&] { lane().on_up(); });
  EXPECT_EQ(sent(), "mg sluice:login:k v c O0\r\nmn\r\n");
  EXPECT_FALSE(asked.inquiry.is_answered);
}

TEST_F(MemcachedCarrierTest, NobodyWaitsForAServerThatCannotBeReached) {
  const Ask& asked = ask("k");
  there([&] { lane().on_down("memcached a:1 has closed the connection"); });
  EXPECT_FALSE(asked.inquiry.is_answered);
  there([&] { lane().on_down("memcached a:1: connection refused"); });
  EXPECT_TRUE(asked.inquiry.is_answered);
  EXPECT_EQ(asked.inquiry.fault, "memcached a:1: connection refused");
  const Ask& next = ask("k");
  EXPECT_TRUE(next.inquiry.is_answered);
  EXPECT_EQ(next.decision.source, Source::kUnanswered);
  EXPECT_EQ(carrier_.under_way(), 0U);
}

// Callers go when their time is up; their keys wait for a connection that is not there yet.
// A server that cannot be reached any more by when the sweep begins to send.
class MemcachedCarrierSweep : public MemcachedCarrierTest {
 protected:
  void on_kick() override {
    if (!loses_) return;
    lane().on_down("memcached a:1 has closed the connection");
    lane().on_down("memcached a:1: connection refused");
  }

  bool loses_ = false;
};

TEST_F(MemcachedCarrierSweep, EndsOnceWhereTheServerGoesMeanwhile) {
  options_.virtual_time = true;
  write_first("a", 1, 7);
  write_first("b", 1, 8);
  int swept = 0;
  there([&] {
    loses_ = true;
    EXPECT_NO_THROW(carrier_.sweep([&] { ++swept; }));
    EXPECT_EQ(carrier_.under_way(), 0U);
  });
  EXPECT_EQ(swept, 1);
}

TEST_F(MemcachedCarrierTest, KeysThatNobodyWaitsForAreBounded) {
  constexpr std::size_t kMost = MemcachedCarrier::kMaxUnderWay;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kMost; ++i) keys.push_back(std::to_string(i));
  std::vector<Request> requests;
  for (const auto& key : keys) {
    requests.push_back({.limit = &limit_.definition(), .space = &space_, .key = key});
  }
  std::vector<Decision> decisions(kMost);
  WatchedInquiry all;
  all.requests = requests;
  all.decisions = decisions;
  all.now = kNow;
  courier_.submit(all, Courier::Clock::now());
  while (!all.is_answered) there([] {});
  EXPECT_EQ(carrier_.under_way(), kMost);
  EXPECT_EQ(ask("one more").inquiry.fault, "memcached a:1: too many keys wait for their servers");
  there([&] {
    lane().on_down("memcached a:1 has closed the connection");
    lane().on_down("memcached a:1: connection refused");
  });
  EXPECT_EQ(carrier_.under_way(), 0U);
}

TEST_F(MemcachedCarrierTest, AnErrorFailsItsKeyAlone) {
  const Ask& a = ask("a");
  const Ask& b = ask("b");
  sent();
  answer("SERVER_ERROR busy\r\nEN O1\r\nMN\r\n");
  EXPECT_EQ(a.inquiry.fault, "memcached a:1: SERVER_ERROR busy");
  EXPECT_FALSE(b.inquiry.is_answered);
  sent();
  answer("SERVER_ERROR out of memory storing object\r\nMN\r\n");
  EXPECT_EQ(b.decision.source, Source::kUnanswered);
  EXPECT_THAT(b.inquiry.fault, HasSubstr("out of memory"));
  EXPECT_EQ(carrier_.under_way(), 0U);
}

TEST_F(MemcachedCarrierTest, ADamagedValueFailsUntilItIsReset) {
  const Ask& taken = ask("k");
  const Ask& reset = ask("k", 1, Operation::kReset);
  const Ask& after = ask("k", 2);
  sent();
  answer("VA 5 c7 O0\r\nhello\r\nMN\r\n");
  EXPECT_THAT(taken.inquiry.fault, HasSubstr("'sluice:login:k' is damaged"));
  EXPECT_THAT(sent(), HasSubstr(" C7 "));
  answer("HD O0\r\nMN\r\n");
  EXPECT_EQ(reset.decision.remaining, 5);
  EXPECT_EQ(after.decision.remaining, 3);
}

TEST_F(MemcachedCarrierTest, AResetRemovesWhatIsThere) {
  const Ask& reset = ask("k", 1, Operation::kReset);
  sent();
  answer(value(3, 8));
  EXPECT_EQ(sent(), "md sluice:login:k C8 O0\r\nmn\r\n");
  answer("HD O0\r\nMN\r\n");
  EXPECT_TRUE(reset.inquiry.is_answered);
  const Ask& nothing = ask("k", 1, Operation::kReset);
  sent();
  answer("EN\r\nMN\r\n");
  EXPECT_TRUE(nothing.inquiry.is_answered);
  EXPECT_TRUE(is_quiet());
}

// Replies that cannot be those to what was sent: no decision is made from them.
TEST_F(MemcachedCarrierTest, AReplyThatDoesNotFitGivesTheConnectionUp) {
  int expected = 0;
  for (const std::string_view reply : {"MN\r\n", "EN O1\r\nMN\r\n", "EN O0\r\nEN O1\r\nMN\r\n",
                                       "HD O0\r\nMN\r\n", "ERROR\r\nERROR\r\nMN\r\n"}) {
    const Ask& asked = ask("k");
    sent();
    answer(reply);
    EXPECT_EQ(reconnects_, ++expected) << reply;
    EXPECT_FALSE(asked.inquiry.is_answered);
    sent();
    answer(value(5, 1));
    EXPECT_FALSE(asked.decision.allowed);
  }
}

TEST_F(MemcachedCarrierTest, ALateAnswerIsNobodys) {
  deadline_ = 0ns;
  const Ask& asked = ask("k");
  while (!asked.inquiry.is_answered) there([] {});
  EXPECT_EQ(asked.inquiry.fault, "memcached a:1 did not answer within 10ms");
  sent();
  answer("EN\r\nMN\r\n");
  EXPECT_TRUE(is_quiet());
  EXPECT_EQ(carrier_.under_way(), 0U);
}

TEST_F(MemcachedCarrierTest, OnlyAMemcachedWithMetaCommandsIsUsed) {
  for (const std::string_view version : {"1.6.13", "1.6.38_1", "1.7.0", "2.0.0"}) {
    EXPECT_EQ(lane().on_greeting(0, "VERSION " + std::string(version) + "\r\n"), std::nullopt);
  }
  EXPECT_EQ(lane().on_greeting(1, "MN\r\n"), std::nullopt);
  EXPECT_EQ(lane().on_greeting(0, "VERSION 1.6.9\r\n"),
            "memcached a:1 says 'VERSION 1.6.9' to 'version': it has to be memcached 1.6.13 or "
            "later, with room for a connection");
  for (const std::string_view older : {"VERSION 1.6.12\r\n", "VERSION 1.5.22\r\n", "ERROR\r\n"}) {
    EXPECT_TRUE(lane().on_greeting(0, older).has_value()) << older;
  }
  EXPECT_THAT(lane().on_greeting(1, "ERROR\r\n").value_or(""),
              HasSubstr("memcached a:1 says 'ERROR' to a meta command"));
}

}  // namespace
}  // namespace sluice::memcached
