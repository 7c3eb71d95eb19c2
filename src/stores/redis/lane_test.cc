// Which reply is whose, on a connection that the test plays: it hands over each reply itself. That
// the connection is given up shows by what follows: once it is lost, nobody waits for the next.

#include "stores/redis/lane.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "stores/redis/direct_call.h"
#include "stores/redis/lane_under_test.h"

namespace sluice::redis {
namespace {

constexpr std::string_view kNobodys = ":5\r\n";

TEST_F(LaneOfATest, GivesEachCallItsOwnReply) {
  Asker first;
  Asker second;
  ask(first);
  ask(second);
  play([&] {
    first.call->on_reply(admitted_by(first.number));
    second.call->on_reply(admitted_by(second.number));
  });
  for (Asker* asker : {&first, &second}) {
    asker->inquiry.wait();
    EXPECT_TRUE(asker->decision.allowed);
    EXPECT_EQ(asker->decision.source, Source::kStore);
    EXPECT_EQ(asker->inquiry.fault, "");
  }
  EXPECT_FALSE(end({}));
}

TEST_F(LaneOfATest, IsGivenUpByOneReplyTooMany) {
  Asker first;
  Asker second;
  ask(first);
  ask(second);
  play([&] { first.call->on_reply(kNobodys); });
  expect_unanswered(first, "cannot be read");
  EXPECT_TRUE(end({second.call}));
  expect_unanswered(second, "it is gone");
}

TEST_F(LaneOfATest, IsGivenUpByOneReplyTooFew) {
  Asker first;
  Asker second;
  ask(first);
  ask(second);
  play([&] { first.call->on_reply(admitted_by(second.number)); });
  expect_unanswered(first, "not the one to this call");
  EXPECT_TRUE(end({second.call}));
  expect_unanswered(second, "it is gone");
}

// What an ASK has sent here is asked here, however often the cluster's map is read meanwhile.
TEST_F(LaneOfATest, GivesBackWhatWaitsButNotWhatWasSentToItAlone) {
  Asker anywhere;
  Asker here;
  for (Asker* asker : {&anywhere, &here}) {
    prepare(*asker);
    ASSERT_TRUE(courier_.submit(asker->inquiry, Courier::Clock::now() + kNoHurry));
    play([&] { asker == &here ? lane_.carry_asking(*carried_) : lane_.carry(*carried_); });
  }
  play([&] {
    ErrandList back;
    lane_.give_back(back);
    ASSERT_FALSE(back.empty());
    courier_.fail(back.pop_front(), "it was given back");
    EXPECT_TRUE(back.empty());
    std::string command;
    Exchange* const asking = lane_.next_exchange();
    asking->write(command);
    EXPECT_NE(command.find("ASKING"), std::string::npos);
    const std::uint32_t number = lane_.number_call() + 1;
    Exchange* const call = lane_.next_exchange();
    call->write(command);
    asking->on_reply("+OK\r\n");
    call->on_reply(admitted_by(number));
  });
  expect_unanswered(anywhere, "it was given back");
  here.inquiry.wait();
  EXPECT_EQ(here.decision.source, Source::kStore);
}

// An error names no call. Whoever is told of it is not told what the store decided for another, and
// the reply that comes after it shows that it was one too many.
TEST_F(LaneOfATest, IsGivenUpByTheReplyAfterOneErrorTooMany) {
  Asker first;
  Asker second;
  ask(first);
  ask(second);
  play([&] { first.call->on_reply("-ERR out of nowhere\r\n"); });
  expect_unanswered(first, "refused: ERR out of nowhere");
  play([&] { second.call->on_reply(admitted_by(first.number)); });
  expect_unanswered(second, "not the one to this call");
  EXPECT_TRUE(end({}));
}

TEST_F(LaneOfATest, IsGivenUpByAReplyToACommandThatCannotBeRead) {
  std::string why;
  const auto answer_with = [&](std::string_view reply) {
    play([&] {
      lane_.ask("PING\r\n", [&](const Reply* tree, std::string_view fault) {
        EXPECT_EQ(tree, nullptr);
        why = fault;
      });
      lane_.next_exchange()->on_reply(reply);
    });
  };
  answer_with("-ERR no\r\n");
  EXPECT_EQ(why, "ERR no");
  EXPECT_FALSE(end({}));
  play([&] { lane_.on_up(); });
  answer_with("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n");
  EXPECT_EQ(why, "the reply cannot be read");
  EXPECT_TRUE(end({}));
}

// A caller drives the connection itself, stays for the reply, and is told what went wrong.
TEST_F(LaneOfATest, IsGivenUpByAReplyThatIsNotADirectCallers) {
  for (const bool readable : {true, false}) {
    play([&] { lane_.on_up(); });
    Asker asker;
    prepare(asker);
    DirectCall call({}, lane_);
    ASSERT_TRUE(call.load(asker.inquiry));
    const std::uint32_t before = lane_.number_call();
    std::string command;
    call.write(command);
    call.on_reply(readable ? admitted_by(before) : std::string(kNobodys));
    EXPECT_EQ(call.outcome(), DirectCall::Outcome::kRead);
    EXPECT_NE(call.why(), "");
    EXPECT_EQ(asker.decision.source, Source::kUnanswered);
    EXPECT_TRUE(end({}));
  }
}

// The reply comes when the caller has gone: nobody reads it, and yet it is to be its own.
TEST_F(LaneOfATest, IsGivenUpByAReplyThatIsNotADirectCallersWhoHasGone) {
  for (const bool own : {true, false}) {
    play([&] { lane_.on_up(); });
    auto asker = std::make_unique<Asker>();
    prepare(*asker);
    auto call = std::make_unique<DirectCall>(CallOptions{}, lane_);
    ASSERT_TRUE(call->load(asker->inquiry));
    const std::uint32_t before = lane_.number_call();
    std::string command;
    call->write(command);
    ASSERT_TRUE(call->leave());
    asker.reset();
    call.release()->on_reply(admitted_by(own ? before + 1 : before));
    EXPECT_EQ(end({}), !own);
  }
}

}  // namespace
}  // namespace sluice::redis
