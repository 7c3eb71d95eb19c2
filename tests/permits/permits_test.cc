#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "permits/holder.h"
#include "permits/wake_up.h"
#include "servers/each_server.h"
#include "sluice/sluice.h"
#include "waiting/release_fairness.h"

namespace sluice::permits {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// The promises of permits between processes.
class PermitsTest : public servers::OnEachServer {
 protected:
  Source source_{.url = patient_url(*server_)};
};

TEST_P(PermitsTest, AWaiterInAnotherProcessGetsWhatIsReleased) {
  constexpr int kRounds = 11;
  Holder first(source_);
  Holder second(source_);
  std::vector<nanoseconds> delays;
  for (int i = 0; i < kRounds; ++i) {
    first.acquire();
    second.tell("acquire 30000");
    // So late that the other process waits, and its pauses have grown.
    first.tell("release 300");
    const nanoseconds released = first.hear_time("released");
    delays.push_back(second.hear_time("granted") - released);
    second.tell("release");
    second.hear("released");
  }
  std::ranges::sort(delays);
  const nanoseconds median = delays[kRounds / 2];
  RecordProperty("median_us", static_cast<int>(median.count() / 1000));
  // The longest pause of a waiting process is 100 ms; a busy machine adds to it.
  EXPECT_LT(median, GetParam().tells ? milliseconds(30) : milliseconds(200));
}

TEST_P(PermitsTest, AWaiterOfTheSameProcessIsWokenWithinFiveMilliseconds) {
  ConcurrencyLimiter jobs(open_store(source_.url), Limit("concurrency 1", "jobs"));
  const nanoseconds median = wake_up_by_release(jobs, 51, milliseconds(20)).median;
  RecordProperty("median_us", static_cast<int>(median.count() / 1000));
  EXPECT_LE(median, milliseconds(5));
}

// Jobs that last longer than a run of grants: the process need not leave a permit to others after
// each of them. There are few rounds, so a busy machine may delay half of them.
TEST_P(PermitsTest, AWaiterOfTheSameProcessIsWokenAsSoonAfterALongJob) {
  ConcurrencyLimiter jobs(open_store(source_.url), Limit("concurrency 1", "jobs"));
  const ReleaseFairness::Run run =
      GetParam().tells ? ReleaseFairness::kNotified : ReleaseFairness::kPolling;
  const nanoseconds least = wake_up_by_release(jobs, 5, run.lasts + milliseconds(50)).least;
  RecordProperty("least_us", static_cast<int>(least.count() / 1000));
  EXPECT_LT(least, std::min(run.backoff, milliseconds(5)));
}

TEST_P(PermitsTest, ARefundWakesAWaiterOfTheSameProcessWithinFiveMilliseconds) {
  Limiter limiter(open_store(source_.url),
                  Limit("fixed_window 1/1h anchor=first & sliding_log 9/1h"));
  const nanoseconds median = wake_up_by_refund(limiter, 51).median;
  RecordProperty("median_us", static_cast<int>(median.count() / 1000));
  EXPECT_LE(median, milliseconds(5));
}

TEST_P(PermitsTest, AHolderThatIsKilledCostsItsLeaseAtMost) {
  Holder first(source_);
  Holder second(source_);
  const nanoseconds asked = steady_clock::now().time_since_epoch();
  first.acquire();
  second.tell("try");
  second.hear("denied");
  first.kill();
  const nanoseconds killed = steady_clock::now().time_since_epoch();
  second.tell("acquire 30000");
  const nanoseconds free = second.hear_time("granted");
  EXPECT_GE(free - asked, milliseconds(5900));
  EXPECT_LE(free - killed, seconds(6 + 4)) << "its lease, which it may just have renewed";
}

TEST_P(PermitsTest, AHolderThatLivesKeepsItBeyondItsLease) {
  Holder first(source_);
  Holder second(source_);
  first.acquire();
  second.tell("acquire 7500");
  second.hear("denied");
  first.tell("held");
  EXPECT_EQ(first.hear(), "yes");
}

TEST_P(PermitsTest, AHolderThatStandsStillLearnsThatItHasExpired) {
  Holder first(source_);
  Holder second(source_);
  first.acquire();
  first.pause();
  second.tell("acquire 30000");
  const nanoseconds taken = second.hear_time("granted");
  first.resume();
  EXPECT_GE(first.hear_time("expired"), taken);
  first.tell("held");
  EXPECT_EQ(first.hear(), "no");
  first.tell("release");
  first.hear("released");
  second.tell("held");
  EXPECT_EQ(second.hear(), "yes") << "one holder has released the permit of another";
}

// Each process releases its permit and asks again at once: without fairness the same one would
// always be first.
TEST_P(PermitsTest, NoProcessStarves) {
  source_.limit = "concurrency 1";
  std::vector<std::unique_ptr<Holder>> holders;
  for (int i = 0; i < 3; ++i) holders.push_back(std::make_unique<Holder>(source_));
  for (const auto& holder : holders) holder->tell("loop 20000 5");
  for (const auto& holder : holders) {
    std::istringstream words(holder->hear("rounds"));
    int rounds = 0;
    std::int64_t longest_ns = 0;
    words >> rounds >> longest_ns;
    EXPECT_GT(rounds, 0);
    // A run of grants of each of the two other processes lasts at most 2 s; which process is next
    // is random.
    EXPECT_LT(nanoseconds(longest_ns), seconds(16));
  }
}

TEST_P(PermitsTest, AProcessThatEndsReleasesItsPermits) {
  source_.limit = "concurrency 1";
  Holder second(source_);
  {
    Holder first(source_);
    first.acquire();
    second.tell("try");
    second.hear("denied");
    EXPECT_EQ(first.finish(), 0);
  }
  second.tell("acquire 20000");  // Less than a lease.
  second.hear("granted");
}

// Its permit is a static object, which is destroyed after all others. It has released one before.
TEST_P(PermitsTest, AProcessThatEndsWaitsForTheAnswerToItsRelease) {
  Holder holder(source_);
  holder.acquire();
  holder.tell("release");
  holder.hear("released");
  holder.acquire();
  server_->pause();
  const auto paused = steady_clock::now();
  EXPECT_EQ(holder.finish(), 0);
  EXPECT_GE(steady_clock::now() - paused, milliseconds(900)) << "it waits up to a second";
  server_->resume();
}

TEST_P(PermitsTest, TellsItsHolderInTimeThatTheStoreIsLostForALease) {
  // With the short deadline, a caller that the store does not answer in time is denied and asks
  // again, so that the store grants every permit. With the long one, an answer may still come.
  for (const std::string options : {"?deadline=20ms&on_failure=deny", "?deadline=5s"}) {
    SCOPED_TRACE(options);
    Holder first({.url = server_->url() + options, .limit = "concurrency 1 lease=2s"});
    const nanoseconds asked = steady_clock::now().time_since_epoch();
    first.acquire();
    server_->pause();
    const nanoseconds paused = steady_clock::now().time_since_epoch();
    const nanoseconds expired = first.hear_time("expired");
    server_->resume();
    EXPECT_GE(expired - asked, milliseconds(1900));
    EXPECT_LE(expired - paused, seconds(2 + 2)) << "its lease, which it may just have renewed";
    first.tell("held");
    EXPECT_EQ(first.hear(), "no");
  }
}

INSTANTIATE_TEST_SUITE_P(EveryServer, PermitsTest, servers::kEachServer, servers::name_of);

}  // namespace
}  // namespace sluice::permits
