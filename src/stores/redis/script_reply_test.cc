#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <numeric>

#include "sluice/limit.h"
#include "stores/redis/redis_space.h"
#include "stores/redis/resp.h"
#include "testing/script_requests.h"

namespace sluice::redis {
namespace {

constexpr Instant kNow = 1'700'000'000'000'000'000;
// Why a reply, or an answer in it, is refused.
constexpr std::string_view kUnreadable = "the reply to the script cannot be read";
constexpr std::string_view kDamaged = "the value of the key is damaged";
constexpr std::string_view kOtherVerdict =
    "the script's verdict is not the one that follows from the state it was given";

// Some requests, and replies to them that no server has sent.
class Asked {
 public:
  Asked() {
    requests_[2].cost = 0;
    requests_[3].operation = Operation::kRefund;
    for (auto& request : requests_) {
      request.space = &spaces_[request.limit == &bucket_.definition() ? 0 : 1];
    }
    for (std::size_t i = 0; i < 4; ++i) call.add({&requests_[i], 1}, decisions[i]);
    call.add(std::span(requests_).first(2), decisions[4]);
  }

  ScriptRequests call{{}, kNow};
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

// The head of a value whose parts are fresh and whose block ends then.
std::string blocked_head(std::size_t bytes, Instant until) {
  std::string head(bytes, '\0');
  return head.replace(bytes - 16, sizeof until, instant_text(until));
}

std::string reply_of(const std::vector<std::string>& texts) {
  std::string bytes;
  append_text(bytes, std::accumulate(texts.begin(), texts.end(), std::string()));
  return bytes;
}

// The answer to a request or group that failed.
std::string failure(const std::string& sentence) {
  return std::string{'-', static_cast<char>(sentence.size()), 0} + sentence;
}

// The summary of a ring or of permits.
std::string summary(double count = 0, Instant first = 0, Instant second = 0) {
  std::string text(8, '\0');
  std::memcpy(text.data(), &count, sizeof count);
  return text + instant_text(first) + instant_text(second);
}

// All keys are fresh, and all is admitted.
std::vector<std::string> fresh_answers(std::uint32_t number = kNumber) {
  const std::string bucket(1, '\0');
  const std::string both = bucket + summary();
  return {head_text(number), '1' + bucket, '1' + both,
          '1' + bucket,      '1' + both,   '1' + bucket + both};
}

// Also where no decision is wanted any more.
TEST(ScriptReply, ToAnotherCallAnswersNothing) {
  for (const bool abandoned : {false, true}) {
    for (const std::uint32_t number : {kNumber - 1, kNumber + 1, kNumber ^ 0x80000000U, 0U}) {
      Asked asked;
      for (std::size_t i = 0; abandoned && i < 5; ++i) asked.call.forget(i);
      EXPECT_FALSE(asked.call.read(reply_of(fresh_answers(number))));
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(asked.call.errors()[i].empty(), abandoned) << i;
        EXPECT_EQ(asked.decisions[i].limit, 0) << i;
      }
    }
  }
}

TEST(ScriptReply, NamesTheErrorOfEachThatFailed) {
  Asked asked;
  auto answers = fresh_answers();
  answers[2] = failure("OOM no memory");
  answers[5] = failure("-READONLY no\r\n");
  EXPECT_TRUE(asked.call.read(reply_of(answers)));
  EXPECT_EQ(asked.call.errors()[1], "OOM no memory");
  EXPECT_EQ(asked.call.errors()[4], "READONLY no");
  for (const std::size_t i : {1U, 4U}) EXPECT_EQ(asked.decisions[i].source, Source::kUnavailable);
  for (const std::size_t i : {0U, 2U, 3U}) EXPECT_EQ(asked.call.errors()[i], "") << i;
}

// What a server before 7.0 says before it runs a command comes with the place in the script, a dash
// and the line's end; what a command says itself comes as it is.
TEST(ScriptReply, NamesTheErrorsOfServersBefore7) {
  const std::string place = "@user_script: 181: ";
  const std::string user = place + "The user executing the script can't run this command";
  for (const auto& [said, error] : std::vector<std::pair<std::string, std::string>>{
           {"WRONGTYPE Operation against a key", "WRONGTYPE Operation against a key"},
           {place + "-OOM command not allowed.\r\n", "OOM command not allowed."},
           {place + "-READONLY You can't write.\r\n", "READONLY You can't write."},
           {user, user}}) {
    Asked asked;
    auto answers = fresh_answers();
    answers[2] = failure(said);
    EXPECT_TRUE(asked.call.read(reply_of(answers)));
    EXPECT_EQ(asked.call.errors()[1], error);
  }
}

TEST(ScriptReply, CutShortAnswersWhatItHasWhole) {
  for (const bool fails : {false, true}) {
    auto answers = fresh_answers();
    if (fails) answers[5] = failure("OOM no memory");
    const std::string whole = std::accumulate(answers.begin(), answers.end(), std::string());
    for (std::size_t length = 0; length < whole.size(); ++length) {
      Asked asked;
      EXPECT_FALSE(asked.call.read(reply_of({whole.substr(0, length)})));
      std::size_t end = answers[0].size();
      for (std::size_t i = 0; i < 5; ++i) {
        end += answers[i + 1].size();
        EXPECT_EQ(asked.call.errors()[i].empty(), length >= end) << i << ' ' << length;
      }
    }
  }
}

// Whether the last was answered, has failed, or was forgotten.
TEST(ScriptReply, WithMoreThanWasAskedForIsNoAnswerToTheLast) {
  for (const std::string last : {"answered", "failed", "forgotten"}) {
    Asked asked;
    auto answers = fresh_answers();
    if (last == "failed") answers.back() = failure("OOM no memory");
    if (last == "forgotten") asked.call.forget(4);
    answers.push_back("1");
    EXPECT_FALSE(asked.call.read(reply_of(answers)));
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(asked.call.errors()[i], "") << last << i;
    EXPECT_EQ(asked.call.errors()[4], last == "forgotten" ? "" : kUnreadable);
  }
}

TEST(ScriptReply, LeavesAllUnansweredFromAnAnswerOnThatIsNone) {
  for (const std::string& none :
       {std::string(), std::string("1"), std::string("2\0", 2), std::string("1\4", 2),
        std::string("1\1", 2), std::string("1\2", 2), std::string("-"), failure(""),
        failure("OOM").substr(0, 5)}) {
    Asked asked;
    auto answers = fresh_answers();
    answers.resize(4);
    answers[3] = none;
    EXPECT_FALSE(asked.call.read(reply_of(answers)));
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(asked.decisions[i].source == Source::kUnavailable, i >= 2) << i;
      EXPECT_EQ(asked.call.errors()[i].empty(), i < 2) << i;
    }
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
    call.add({&request_, 1}, decision);
  }

  /// Why there is no decision; empty where there is one.
  std::string_view read(const std::string& answers) {
    readable = call.read(reply_of({head_text(), answers}));
    return call.errors()[0];
  }

  std::size_t head_bytes() const { return space_.head_bytes(); }

  ScriptRequests call{{}, kNow};
  Decision decision;
  bool readable = false;

 private:
  Limit limit_;
  RedisSpace space_;
  Request request_;
};

constexpr const char* kPermits = "concurrency 2 lease=1us";
// The verdict, and that the key has no value.
const std::string kAdmitted("1\0", 2);
const std::string kDenied("0\0", 2);

TEST(ScriptReply, ThatAdmitsAPermitBeyondTheLimitIsRefused) {
  One fits(kPermits, Operation::kTake);
  EXPECT_EQ(fits.read(kAdmitted + summary(2, kNow + 5, kNow + 1'000)), "");
  EXPECT_EQ(fits.decision.remaining, 0);
  One denied(kPermits, Operation::kTake);
  EXPECT_EQ(denied.read(kDenied + summary(3, kNow + 5, kNow + 9)), "");
  EXPECT_EQ(denied.decision.retry_after.count(), 5);
  EXPECT_EQ(One(kPermits, Operation::kTake).read(kAdmitted + summary(3, kNow + 5, kNow + 9)),
            kOtherVerdict);
  EXPECT_EQ(One(kPermits, Operation::kTake).read(kAdmitted + summary(0, 0, 0)), kOtherVerdict);
  EXPECT_EQ(One(kPermits, Operation::kTake).read(kDenied + summary(1, 0, kNow + 9)), kOtherVerdict);
  EXPECT_EQ(One(kPermits, Operation::kTake, 2).read(kAdmitted + summary(1, 0, kNow + 9)),
            kOtherVerdict);
}

TEST(ScriptReply, ThatRenewsForLessThanALeaseIsRefused) {
  One renewed(kPermits, Operation::kRenew);
  EXPECT_EQ(renewed.read(kAdmitted + summary(1, 0, kNow + 1'000)), "");
  EXPECT_TRUE(renewed.decision.allowed);
  One expired(kPermits, Operation::kRenew);
  EXPECT_EQ(expired.read(kDenied + summary(0, 0, 0)), "");
  EXPECT_EQ(expired.decision.retry_after, kNever);
  EXPECT_EQ(One(kPermits, Operation::kRenew).read(kAdmitted + summary(1, 0, kNow + 999)),
            kOtherVerdict);
}

TEST(ScriptReply, OfPermitsThatMakesNoSenseIsRefused) {
  // Without what is held; what has expired; room that there is; no count.
  EXPECT_EQ(One(kPermits, Operation::kTake).read(kAdmitted), kUnreadable);
  EXPECT_EQ(One(kPermits, Operation::kTake, 0).read(kAdmitted + summary(1, 0, kNow)), kDamaged);
  EXPECT_EQ(One(kPermits, Operation::kTake).read(kDenied + summary(2, kNow, kNow + 9)), kDamaged);
  EXPECT_EQ(One(kPermits, Operation::kTake).read(kAdmitted + summary(0.5, 0, kNow + 9)), kDamaged);
  EXPECT_EQ(One(kPermits, Operation::kTake).read(kAdmitted + summary(-1, 0, kNow + 9)), kDamaged);
}

TEST(ScriptReply, OfABlockDeniesAndEndsLater) {
  One denied("token_bucket 5/1m", Operation::kTake);
  const std::string blocked = blocked_head(denied.head_bytes(), kNow + 30);
  EXPECT_EQ(denied.read("0\1" + blocked), "");
  EXPECT_EQ(denied.decision.retry_after.count(), 30);
  EXPECT_EQ(denied.decision.remaining, 0);
  One blocks("token_bucket 5/1m", Operation::kBlock);
  EXPECT_EQ(blocks.read("1\1" + blocked), "");
  EXPECT_EQ(blocks.decision.reset_after.count(), 30);
  // Admitted all the same; denied, though it is over by now.
  EXPECT_EQ(One("token_bucket 5/1m", Operation::kTake).read("1\1" + blocked), kOtherVerdict);
  const std::string over = blocked_head(blocked.size(), kNow);
  EXPECT_EQ(One("token_bucket 5/1m", Operation::kTake).read("0\1" + over), kOtherVerdict);
}

// No instant is as late, and with one the end of the longest limit could not be computed.
TEST(ScriptReply, WithAnInstantAtTheEndOfTimeIsRefused) {
  constexpr const char* kLongest =
      "sliding_window 5/2305843009213693952ns precision=2305843009213693952ns";
  for (const Instant newest : {kEndOfTime - 1, kEndOfTime}) {
    One asked(kLongest, Operation::kTake, 0);
    const std::string head(asked.head_bytes(), '\0');
    const std::string_view error = asked.read("1\1" + head + summary(1, newest, newest));
    EXPECT_EQ(error.empty(), newest < kEndOfTime) << error;
  }
  Asked asked;
  auto answers = fresh_answers();
  answers[0].replace(sizeof kNumber, sizeof(Instant), instant_text(kEndOfTime));
  EXPECT_FALSE(asked.call.read(reply_of(answers)));
}

std::string count_text(double count) {
  return summary(count).substr(0, sizeof count);
}

TEST(ScriptReply, ThatTakesOtherThanThereIsIsRefused) {
  for (const char* expression : {"fixed_window 5/1m", "sliding_log 5/1m"}) {
    const bool is_ring = std::string_view(expression).starts_with("sliding");
    const std::string fresh = kAdmitted + (is_ring ? summary() : "");
    One takes(expression, Operation::kTakeUpTo, 9);
    EXPECT_EQ(takes.read(fresh + count_text(5)), "");
    EXPECT_TRUE(takes.decision.allowed);
    EXPECT_EQ(takes.decision.taken, 5);
    EXPECT_EQ(takes.decision.remaining, 0);
    for (const double taken : {4.0, 6.0, 0.0, 4.5, -1.0}) {
      const bool is_count = taken >= 0 && taken != 4.5;
      One refused(expression, Operation::kTakeUpTo, 9);
      EXPECT_EQ(refused.read(fresh + count_text(taken)), is_count ? kOtherVerdict : kUnreadable)
          << taken;
      EXPECT_EQ(refused.decision.source, Source::kUnavailable);
    }
    One cut(expression, Operation::kTakeUpTo, 9);
    EXPECT_EQ(cut.read(fresh), kUnreadable);
    EXPECT_FALSE(cut.readable);
    // A block denies it, and nothing is taken.
    One denied(expression, Operation::kTakeUpTo, 9);
    const std::string blocked = "0\1" + blocked_head(denied.head_bytes(), kNow + 30);
    EXPECT_EQ(denied.read(blocked + fresh.substr(2) + count_text(5)), "");
    EXPECT_FALSE(denied.decision.allowed);
    EXPECT_EQ(denied.decision.taken, 0);
    // Nothing is taken where nothing is asked for, and nothing is said of it.
    One peeked(expression, Operation::kTakeUpTo, 0);
    EXPECT_EQ(peeked.read(fresh), "");
    EXPECT_TRUE(peeked.decision.allowed);
  }
}

// The script has written what it has admitted, even if the decision does not follow from it.
TEST(ScriptReply, MayBeDoneIfItIsAdmittedWithoutADecision) {
  for (const char verdict : {'0', '1'}) {
    One damaged("fixed_window 5/1m", Operation::kTake);
    const std::string head(damaged.head_bytes(), '\xff');  // Its count is not a number.
    EXPECT_EQ(damaged.read(verdict + ("\1" + head)), kDamaged);
    EXPECT_EQ(damaged.call.may_be_executed(0), verdict == '1');
    One differs(kPermits, Operation::kTake);
    const std::string held =
        verdict == '1' ? summary(3, kNow + 5, kNow + 9) : summary(1, 0, kNow + 9);
    EXPECT_EQ(differs.read((verdict == '1' ? kAdmitted : kDenied) + held), kOtherVerdict);
    EXPECT_EQ(differs.call.may_be_executed(0), verdict == '1');
  }
  for (const bool is_written : {false, true}) {
    One failed("fixed_window 5/1m", Operation::kTake);
    const std::string answer = failure("OOM");
    EXPECT_EQ(failed.read(is_written ? '+' + answer.substr(1) : answer), "OOM");
    EXPECT_EQ(failed.call.may_be_executed(0), is_written);
  }
  One decided("fixed_window 5/1m", Operation::kTake);
  EXPECT_EQ(decided.read(kAdmitted), "");
  EXPECT_FALSE(decided.call.may_be_executed(0));
}

RC_GTEST_PROP(ScriptReply, OfAnyBytesDoesNoHarm, ()) {
  Asked asked;
  auto answers = fresh_answers();
  const auto odd = *rc::gen::inRange<std::size_t>(1, answers.size() + 1);
  if (odd < answers.size()) {
    answers[odd].resize(*rc::gen::inRange<std::size_t>(0, answers[odd].size() + 1));
    answers[odd] += *rc::gen::container<std::string>(rc::gen::weightedOneOf<char>(
        {{3, rc::gen::inRange<char>(0, 5)}, {1, rc::gen::arbitrary<char>()}}));
  }
  std::string reply = reply_of(answers);
  const auto changes = *rc::gen::inRange(0, 3);
  for (int i = 0; i < changes; ++i) {
    reply[*rc::gen::inRange<std::size_t>(0, reply.size())] = *rc::gen::arbitrary<char>();
  }
  reply.resize(*rc::gen::inRange<std::size_t>(0, reply.size() + 1));
  // In memory of its own, so that a sanitizer sees a read beyond it.
  const std::vector<char> bytes(reply.begin(), reply.end());
  const bool readable = asked.call.read({bytes.data(), bytes.size()});
  for (std::size_t i = 0; i < 5; ++i) {
    RC_ASSERT(readable || !asked.call.errors()[4].empty());
    const bool unanswered = asked.decisions[i].source == Source::kUnavailable;
    RC_ASSERT(unanswered != asked.call.errors()[i].empty());
  }
}

// The answers to those that were forgotten are passed over, however long they are.
TEST(ScriptCallBounds, ForgottenRequestsAreNotTouched) {
  const Limit limit("token_bucket 5/1m & sliding_log 3/1m");
  const Limit bucket("token_bucket 5/1m");
  RedisSpace space("sluice", limit.definition());
  RedisSpace bucket_space("sluice", bucket.definition());
  const std::string known =
      std::string("1\1", 2) + std::string(space.head_bytes(), 'x') + summary();
  const Request stays{.limit = &bucket.definition(), .space = &bucket_space, .key = "b"};
  for (const std::string& first : {kAdmitted + summary(), known, failure("OOM")}) {
    auto gone = std::make_unique<std::pair<Request, Decision>>();
    gone->first = {.limit = &limit.definition(), .space = &space, .key = "a"};
    Decision decision;
    ScriptRequests call({}, kNow);
    call.add({&gone->first, 1}, gone->second);
    call.add({&stays, 1}, decision);
    call.forget(0);
    gone.reset();
    EXPECT_TRUE(call.read(reply_of({head_text(), first, kAdmitted})));
    EXPECT_EQ(decision.remaining, 4);
    EXPECT_EQ(call.errors(), std::vector<std::string>(2));
  }
}

TEST(ScriptCallBounds, TakesSoManyRequestsAndBytes) {
  const Limit limit("token_bucket 5/1m");
  RedisSpace space("sluice", limit.definition());
  const std::string long_key(500'000, '%');
  Request request{.limit = &limit.definition(), .space = &space, .key = "a"};
  Decision decision;
  ScriptRequests call;
  for (std::size_t i = 0; i < ScriptCall::kMaxRequests; ++i) {
    EXPECT_TRUE(call.add({&request, 1}, decision));
  }
  EXPECT_FALSE(call.add({&request, 1}, decision));
  EXPECT_EQ(call.errors().size(), ScriptCall::kMaxRequests);

  ScriptRequests large;
  request.key = long_key;
  EXPECT_FALSE(large.add({&request, 1}, decision));
  request.key = std::string_view(long_key).substr(0, 300'000);
  EXPECT_TRUE(large.add({&request, 1}, decision));
  const std::string command = large.command();
  EXPECT_FALSE(large.add({&request, 1}, decision));
  EXPECT_EQ(large.command(), command);
  EXPECT_LE(command.size(), ScriptCall::kMaxBytes);
}

}  // namespace
}  // namespace sluice::redis
