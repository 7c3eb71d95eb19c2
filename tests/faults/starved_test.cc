// Cases that look like a late server and are not: a process that gets too little processor time,
// and a batch of many calls.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "faults/expectations.h"
#include "faults/load.h"
#include "servers/redis_server.h"

namespace sluice::faults {
namespace {

using servers::RedisServer;

/// How many answers the callers of one process got, by Source.
struct Answers {
  std::array<std::int64_t, 6> allowed{};
  std::array<std::int64_t, 6> denied{};

  void add(const Answers& other) {
    for (std::size_t i = 0; i < allowed.size(); ++i) {
      allowed[i] += other.allowed[i];
      denied[i] += other.denied[i];
    }
  }
};

Answers ask_until(Limiter& limiter, Clock::time_point end) {
  Answers answers;
  while (Clock::now() < end) {
    const Decision decision = limiter.check("hot");
    auto& count = decision.allowed ? answers.allowed : answers.denied;
    ++count[static_cast<std::size_t>(decision.source)];
  }
  return answers;
}

/// A process with four threads that ask without a pause until `end`.
class BusyProcess {
 public:
  BusyProcess(const std::string& url, Clock::time_point end) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    child_ = ::fork();
    if (child_ == 0) {
      const Answers answers = ask(url, end);
      const bool is_written = ::write(ends[1], &answers, sizeof(answers)) == sizeof(answers);
      ::_exit(is_written ? 0 : 1);
    }
    ::close(ends[1]);
    output_ = ends[0];
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;
  ~BusyProcess() { ::close(output_); }

  Answers wait() {
    Answers answers;
    EXPECT_EQ(::read(output_, &answers, sizeof(answers)), static_cast<ssize_t>(sizeof(answers)));
    EXPECT_EQ(::waitpid(child_, nullptr, 0), child_);
    return answers;
  }

 private:
  static Answers ask(const std::string& url, Clock::time_point end) {
    Limiter limiter(open_store(url), Limit("token_bucket 100/1s"));
    std::array<Answers, 4> each;
    std::vector<std::thread> threads;
    for (Answers& one : each) threads.emplace_back([&] { one = ask_until(limiter, end); });
    for (std::thread& thread : threads) thread.join();
    Answers all;
    for (const Answers& one : each) all.add(one);
    return all;
  }

  pid_t child_ = -1;
  int output_ = -1;
};

// The limit admits 100 at once and 100 in each of five seconds, of which the processes need some to
// start. Twelve threads that never sleep prevent each other from reading replies in time, although
// the server is not late.
TEST(Late, StarvedProcessesDoNotTakeAHealthyServerForALostOne) {
  expect_in_time("a tenth more or less than the limit admits", [] {
    RedisServer server;
    std::vector<std::unique_ptr<BusyProcess>> processes;
    const Clock::time_point end = Clock::now() + 5s;
    for (int i = 0; i < 3; ++i) {
      processes.push_back(std::make_unique<BusyProcess>(server.url(), end));
    }
    Answers all;
    for (const auto& process : processes) all.add(process->wait());
    std::int64_t admitted = 0;
    for (std::size_t i = 0; i < all.allowed.size(); ++i) {
      admitted += all.allowed[i];
      std::cout << to_string(static_cast<Source>(i)) << ": " << all.allowed[i] << " admitted, "
                << all.denied[i] << " denied\n";
    }
    EXPECT_GE(admitted, 400);
    EXPECT_LE(admitted, 900);
    // The processes themselves make this machine late, which is no excuse.
    return Try{
        .is_in_time = [admitted](Clock::duration) { return admitted >= 540 && admitted <= 660; }};
  });
}

// On Redis the deadline is that of each call, not that of all calls together, which take longer;
// nor does a batch's time begin while the calls of another are sent before its own.
TEST(Late, BatchesOfThousandsAreAnsweredByTheStore) {
  static constexpr std::size_t kKeys = 40'000;
  static constexpr Clock::duration kDeadlineOfACall = 100ms;
  RedisServer server;
  Limiter limiter(open_store(server.url() + "?deadline=100ms"), Limit("token_bucket 100/1s"));
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kKeys; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<Ask> asks;
  for (const std::string& key : keys) asks.push_back({.key = key});
  std::vector<Decision> decisions(2 * kKeys);
  expect_in_time("twice 40,000 keys at once", [&] {
    Canary canary;
    const Clock::time_point began = Clock::now();
    std::thread other([&] { limiter.check(asks, std::span(decisions).last(kKeys)); });
    limiter.check(asks, std::span(decisions).first(kKeys));
    other.join();
    const Clock::duration took = Clock::now() - began;
    EXPECT_GT(took, kDeadlineOfACall);
    const auto answered = static_cast<std::size_t>(
        std::count_if(decisions.begin(), decisions.end(),
                      [](const Decision& decision) { return decision.source == Source::kStore; }));
    std::cout << answered << " answered by the store in "
              << std::chrono::duration_cast<std::chrono::milliseconds>(took).count() << " ms\n";
    return Try{.machine_late = canary.stop(), .is_in_time = [answered](Clock::duration room) {
                 return answered == 2 * kKeys || room >= kDeadlineOfACall;
               }};
  });
}

}  // namespace
}  // namespace sluice::faults
