#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "sluice/limit.h"
#include "stores/redis/redis_space.h"
#include "stores/redis/script.h"
#include "stores/redis/script_call.h"

namespace sluice::redis {
namespace {

constexpr Instant kNow = 1'700'000'000'000'000'000;
constexpr std::uint32_t kNumber = 0x89abcdef;

// Some requests, and replies to them that no server has sent.
class Asked {
 public:
  Asked() {
    requests_[2].cost = 0;
    requests_[3].operation = Operation::kRefund;
    for (auto& request : requests_) {
      request.space = &spaces_[request.limit == &bucket_.definition() ? 0 : 1];
    }
    for (std::size_t i = 0; i < 4; ++i) call.add(requests_[i], decisions[i]);
    call.add_together(std::span(requests_).first(2), decisions[4]);
    call.write(kNow, kNumber, command);
  }

  ScriptCall call;
  std::string command;
  Decision decisions[5];

 private:
  Limit bucket_{"token_bucket 5/1m", "b"};
  Limit both_{"sliding_log 5/1m & fixed_window 9/1m", "w"};
  RedisSpace spaces_[2] = {{"sluice", bucket_.definition()}, {"sluice", both_.definition()}};
  Request requests_[4] = {{.limit = &bucket_.definition(), .key = "a"},
                          {.limit = &both_.definition(), .key = "b"},
                          {.limit = &bucket_.definition(), .key = "c"},
                          {.limit = &both_.definition(), .key = "d"}};
};

std::string instant_text(Instant now) {
  std::string text(8, '\0');
  std::memcpy(text.data(), &now, sizeof now);
  return text;
}

// What a reply begins with.
std::string head_text(std::uint32_t number = kNumber) {
  std::string text(4, '\0');
  std::memcpy(text.data(), &number, sizeof number);
  return text + instant_text(kNow);
}

std::string reply_of(const std::vector<std::string>& texts) {
  std::string bytes = '*' + std::to_string(texts.size()) + "\r\n";
  for (const auto& text : texts) {
    bytes += '$' + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  return bytes;
}

// All keys are fresh, and all is admitted.
std::string fresh_answers(std::uint32_t number = kNumber) {
  return head_text(number) + std::string("\1\1\1\1\1\0", 6);
}

TEST(ScriptReply, IsReadWhereAllIsFresh) {
  Asked asked;
  EXPECT_TRUE(asked.call.read(reply_of({fresh_answers()})));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(asked.call.fault(i), "") << i;
    EXPECT_TRUE(asked.decisions[i].allowed) << i;
    EXPECT_EQ(asked.decisions[i].source, Source::kStore) << i;
  }
  EXPECT_EQ(asked.decisions[0].remaining, 4);
  EXPECT_EQ(asked.decisions[2].remaining, 5);
  EXPECT_EQ(asked.call.judged_at(), kNow);
}

// Also where nobody waits for a decision any more.
TEST(ScriptReply, ToAnotherCallAnswersNothing) {
  for (const bool abandoned : {false, true}) {
    for (const std::uint32_t number : {kNumber - 1, kNumber + 1, kNumber ^ 0x80000000U, 0U}) {
      Asked asked;
      if (abandoned) asked.call.abandon_all();
      EXPECT_FALSE(asked.call.read(reply_of({fresh_answers(number)})));
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(asked.call.fault(i).empty(), abandoned) << i;
        EXPECT_EQ(asked.decisions[i].limit, 0) << i;
      }
    }
  }
}

TEST(ScriptReply, WithAnotherVerdictThanFollowsIsRefused) {
  Asked asked;
  std::string answers = fresh_answers();
  answers[12] = 0;
  EXPECT_TRUE(asked.call.read(reply_of({answers})));
  EXPECT_EQ(asked.decisions[0].source, Source::kUnanswered);
  EXPECT_FALSE(asked.decisions[0].allowed);
  EXPECT_NE(asked.call.fault(0).find("verdict"), std::string_view::npos) << asked.call.fault(0);
  for (std::size_t i = 1; i < 5; ++i) EXPECT_EQ(asked.call.fault(i), "") << i;
}

TEST(ScriptReply, NamesTheFaultOfEachThatFailed) {
  Asked asked;
  EXPECT_TRUE(
      asked.call.read(reply_of({head_text() + "\1\4\1\1\4", "OOM no memory", "-READONLY no\r\n"})));
  EXPECT_EQ(asked.call.fault(1), "OOM no memory");
  EXPECT_EQ(asked.call.fault(4), "READONLY no");
  for (const std::size_t i : {1U, 4U}) EXPECT_EQ(asked.decisions[i].source, Source::kUnanswered);
  for (const std::size_t i : {0U, 2U, 3U}) EXPECT_EQ(asked.call.fault(i), "") << i;
}

TEST(ScriptReply, CutShortLeavesTheRestUnanswered) {
  const std::string whole = fresh_answers();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    Asked asked;
    EXPECT_FALSE(asked.call.read(reply_of({whole.substr(0, length)})));
    EXPECT_EQ(asked.decisions[4].source, Source::kUnanswered) << length;
    EXPECT_NE(asked.call.fault(4), "") << length;
    EXPECT_EQ(asked.call.fault(0).empty(), length > 12) << length;
  }
}

// One request of an operation, and what is answered to it.
class One {
 public:
  One(const char* expression, Operation operation, std::int64_t cost = 1)
      : limit_(expression), space_("sluice", limit_.definition()) {
    request_ = {.limit = &limit_.definition(),
                .space = &space_,
                .key = "k",
                .operation = operation,
                .cost = cost,
                .duration_ns = 10,
                .permit = 7};
    call.add(request_, decision);
    std::string command;
    call.write(kNow, kNumber, command);
  }

  /// The fault, empty where there is a decision.
  std::string_view read(const std::string& answers) {
    readable = call.read(reply_of({head_text() + answers}));
    return call.fault(0);
  }

  ScriptCall call;
  Decision decision;
  bool readable = false;

 private:
  Limit limit_;
  RedisSpace space_;
  Request request_;
};

// What is answered of permits.
std::string held(double count, Instant room, Instant last) {
  std::string text(8, '\0');
  std::memcpy(text.data(), &count, sizeof count);
  return text + instant_text(room) + instant_text(last);
}

constexpr const char* kPermits = "concurrency 2 lease=1us";

TEST(ScriptReply, ThatAdmitsAPermitBeyondTheLimitIsRefused) {
  One fits(kPermits, Operation::kTake);
  EXPECT_EQ(fits.read("\3" + held(2, kNow + 5, kNow + 1'000)), "");
  EXPECT_EQ(fits.decision.remaining, 0);
  One denied(kPermits, Operation::kTake);
  EXPECT_EQ(denied.read("\2" + held(3, kNow + 5, kNow + 9)), "");
  EXPECT_EQ(denied.decision.retry_after.count(), 5);
  EXPECT_NE(One(kPermits, Operation::kTake).read("\3" + held(3, kNow + 5, kNow + 9)), "");
  EXPECT_NE(One(kPermits, Operation::kTake).read("\3" + held(0, 0, 0)), "");
  EXPECT_NE(One(kPermits, Operation::kTake).read("\2" + held(1, 0, kNow + 9)), "");
  EXPECT_NE(One(kPermits, Operation::kTake, 2).read("\3" + held(1, 0, kNow + 9)), "");
}

TEST(ScriptReply, ThatRenewsForLessThanALeaseIsRefused) {
  One renewed(kPermits, Operation::kRenew);
  EXPECT_EQ(renewed.read("\3" + held(1, 0, kNow + 1'000)), "");
  EXPECT_TRUE(renewed.decision.allowed);
  One lapsed(kPermits, Operation::kRenew);
  EXPECT_EQ(lapsed.read("\2" + held(0, 0, 0)), "");
  EXPECT_EQ(lapsed.decision.retry_after, kNever);
  EXPECT_NE(One(kPermits, Operation::kRenew).read("\3" + held(1, 0, kNow + 999)), "");
}

TEST(ScriptReply, OfPermitsThatMakesNoSenseIsRefused) {
  // Without what is held; what has lapsed; room that there is; no count.
  EXPECT_NE(One(kPermits, Operation::kTake).read("\1"), "");
  EXPECT_NE(One(kPermits, Operation::kTake, 0).read("\3" + held(1, 0, kNow)), "");
  EXPECT_NE(One(kPermits, Operation::kTake).read("\2" + held(2, kNow, kNow + 9)), "");
  EXPECT_NE(One(kPermits, Operation::kTake).read("\3" + held(0.5, 0, kNow + 9)), "");
  EXPECT_NE(One(kPermits, Operation::kTake).read("\3" + held(-1, 0, kNow + 9)), "");
}

TEST(ScriptReply, OfABlockDeniesAndEndsLater) {
  const std::string until = instant_text(kNow + 30);
  One denied("token_bucket 5/1m", Operation::kTake);
  EXPECT_EQ(denied.read(std::string("\10") + until), "");
  EXPECT_EQ(denied.decision.retry_after.count(), 30);
  EXPECT_EQ(denied.decision.remaining, 0);
  One blocks("token_bucket 5/1m", Operation::kBlock);
  EXPECT_EQ(blocks.read(std::string("\11") + until), "");
  EXPECT_EQ(blocks.decision.reset_after.count(), 30);
  One reset("token_bucket 5/1m", Operation::kReset);
  EXPECT_EQ(reset.read(std::string("\11") + until), "");
  EXPECT_EQ(reset.decision.remaining, 5);
  // Admitted all the same; over by now; cut short.
  EXPECT_NE(One("token_bucket 5/1m", Operation::kTake).read(std::string("\11") + until), "");
  EXPECT_NE(One("token_bucket 5/1m", Operation::kTake).read("\10" + instant_text(kNow)), "");
  One cut("token_bucket 5/1m", Operation::kTake);
  EXPECT_NE(cut.read("\10" + until.substr(1)), "");
  EXPECT_FALSE(cut.readable);
}

TEST(ScriptReply, ToHalvesIsTheirSum) {
  const std::string kFresh("\1", 1);
  One all("fixed_window 1/1m", Operation::kTakeUpTo, 9);
  EXPECT_EQ(all.read(kFresh), "");
  EXPECT_EQ(all.decision.taken, 1);
  // Of three, two halves: where one has failed, the others' answers are passed over.
  for (const auto* answers : {"\4\1", "\1\4", "\4\4"}) {
    Limit limit("fixed_window 9/1m");
    RedisSpace space("sluice", limit.definition());
    const Request asked{.limit = &limit.definition(),
                        .space = &space,
                        .key = "k",
                        .operation = Operation::kTakeUpTo,
                        .cost = 3};
    const Request peek{.limit = &limit.definition(), .space = &space, .key = "p", .cost = 0};
    ScriptCall call;
    Decision decision;
    Decision peeked;
    call.add(asked, decision);
    call.add(peek, peeked);
    std::string command;
    call.write(kNow, kNumber, command);
    EXPECT_TRUE(call.read(reply_of({head_text() + answers + "\1", "OOM one", "OOM other"})));
    EXPECT_EQ(call.fault(0), "OOM one");
    EXPECT_EQ(decision.source, Source::kUnanswered);
    EXPECT_EQ(call.fault(1), "");
    EXPECT_EQ(peeked.remaining, 9);
  }
}

RC_GTEST_PROP(ScriptReply, OfAnyBytesDoesNoHarm, ()) {
  Asked asked;
  std::string answers = fresh_answers();
  const auto more = *rc::gen::container<std::string>(rc::gen::weightedOneOf<char>(
      {{3, rc::gen::inRange<char>(0, 5)}, {1, rc::gen::arbitrary<char>()}}));
  answers.resize(12 + *rc::gen::inRange<std::size_t>(0, 7));
  std::string reply = reply_of({answers + more});
  const auto changes = *rc::gen::inRange(0, 3);
  for (int i = 0; i < changes; ++i) {
    reply[*rc::gen::inRange<std::size_t>(0, reply.size())] = *rc::gen::arbitrary<char>();
  }
  reply.resize(*rc::gen::inRange<std::size_t>(0, reply.size() + 1));
  // In memory of its own, so that a sanitizer sees a read beyond it.
  const std::vector<char> bytes(reply.begin(), reply.end());
  const bool readable = asked.call.read({bytes.data(), bytes.size()});
  for (std::size_t i = 0; i < 5; ++i) {
    RC_ASSERT(readable || !asked.call.fault(4).empty());
    const bool unanswered = asked.decisions[i].source == Source::kUnanswered;
    RC_ASSERT(unanswered != asked.call.fault(i).empty());
  }
}

TEST(ScriptCallBounds, AbandonedRequestsAreNotTouched) {
  const Limit limit("token_bucket 5/1m & sliding_log 3/1m");
  const RedisSpace space("sluice", limit.definition());
  auto gone = std::make_unique<std::pair<Request, Decision>>();
  auto early = std::make_unique<std::pair<Request, Decision>>();
  Request stays{.limit = &limit.definition(), .key = "b"};
  Decision decision;
  ScriptCall call;
  for (Request* request : {&gone->first, &early->first, &stays}) {
    *request = {.limit = &limit.definition(), .space = const_cast<RedisSpace*>(&space), .key = "a"};
  }
  call.add(early->first, early->second);
  call.add(gone->first, gone->second);
  call.add(stays, decision);
  call.abandon(0);
  early.reset();
  std::string command;
  call.write(kNow, kNumber, command);
  call.abandon(1);
  gone.reset();
  EXPECT_TRUE(call.read(reply_of({head_text() + "\1\1"})));
  EXPECT_TRUE(decision.allowed);
  EXPECT_EQ(call.fault(0), "");
  EXPECT_EQ(call.fault(1), "");
}

TEST(ScriptCallBounds, TakesSoManyRequestsAndBytes) {
  const Limit limit("token_bucket 5/1m");
  RedisSpace space("sluice", limit.definition());
  const std::string long_key(500'000, '%');
  Request request{.limit = &limit.definition(), .space = &space, .key = "a"};
  Decision decision;
  ScriptCall call;
  for (std::size_t i = 0; i < ScriptCall::kMaxRequests; ++i) {
    EXPECT_TRUE(call.add(request, decision));
  }
  EXPECT_FALSE(call.add(request, decision));
  EXPECT_EQ(call.size(), ScriptCall::kMaxRequests);
  call.clear();
  request.key = long_key;
  EXPECT_FALSE(call.add(request, decision));
  request.key = std::string_view(long_key).substr(0, 300'000);
  EXPECT_TRUE(call.add(request, decision));
  EXPECT_FALSE(call.add(request, decision));
  std::string command;
  call.write(kNow, kNumber, command);
  EXPECT_LE(command.size(), ScriptCall::kMaxBytes);
}

TEST(Script, IsShortAndNamedByItsHash) {
  EXPECT_LT(script_text().size(), 20'480U);
  EXPECT_EQ(script_sha().size(), 40U);
  EXPECT_EQ(script_text().find("--"), std::string_view::npos);
  EXPECT_EQ(script_text().find("\n "), std::string_view::npos);
}

}  // namespace
}  // namespace sluice::redis
