#include "core/waiting.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sluice {
namespace {

// A thread that asks again and again, and counts the answers that it goes on without.
class Asker {
 public:
  explicit Asker(int rounds) : thread_([this, rounds] { run(rounds); }) {}

  // What it waits for, or is about to; null until it asks again.
  Inquiry* asked() { return asked_.exchange(nullptr); }
  void expect_answer() { told_ += 1; }
  // As the system sees it.
  bool sleeps() const {
    std::ifstream file("/proc/self/task/" + std::to_string(number_) + "/stat");
    std::string text;
    std::getline(file, text);
    return text.find(") S ") != std::string::npos;
  }
  int join() {
    thread_.join();
    return early_;
  }

 private:
  void run(int rounds) {
    number_ = ::gettid();
    for (int round = 1; round <= rounds; ++round) {
      AwaitedInquiry inquiry;
      asked_ = &inquiry;
      inquiry.wait();
      if (told_ != round) ++early_;
    }
  }

  std::atomic<Inquiry*> asked_ = nullptr;
  std::atomic<int> told_ = 0;
  std::atomic<pid_t> number_ = 0;
  int early_ = 0;
  std::thread thread_;  // The last: it uses the others.
};

TEST(AwaitedInquiry, MayHaveBeenAnsweredBefore) {
  AwaitedInquiry inquiry;
  inquiry.answered();
  inquiry.wait();
  AwaitedInquiry told_with_others;
  Inquiry* const told = &told_with_others;
  told_with_others.listener->answered({&told, 1});
  told_with_others.wait();
}

// Nobody goes on before its own answer, and everybody does then: however many are told together,
// and whether they sleep already or not.
TEST(AwaitedInquiry, EachGoesOnWithItsOwnAnswer) {
  constexpr int kRounds = 200;
  std::vector<std::unique_ptr<Asker>> askers;
  for (int i = 0; i < 70; ++i) askers.push_back(std::make_unique<Asker>(kRounds));
  for (std::size_t left = askers.size() * kRounds; left > 0;) {
    std::vector<Inquiry*> told;
    for (auto& asker : askers) {
      Inquiry* const inquiry = asker->asked();
      if (inquiry == nullptr) continue;
      asker->expect_answer();
      told.push_back(inquiry);
      if (told.size() == InquiryListener::kMost) break;
    }
    std::rotate(askers.begin(), askers.begin() + 7, askers.end());
    if (told.empty()) continue;
    left -= told.size();
    InquiryListener* const listener = told[0]->listener;
    listener->answered(told);
  }
  for (auto& asker : askers) EXPECT_EQ(asker->join(), 0);
}

// Where two threads have one place to sleep at, one is woken for the other, and sleeps on.
TEST(AwaitedInquiry, IsNotAnsweredByAnothersAnswer) {
  const auto await = [](Asker& asker) {
    Inquiry* asked = nullptr;
    while (asked == nullptr) asked = asker.asked();
    while (!asker.sleeps()) std::this_thread::yield();
    return asked;
  };
  Asker first(1);
  Inquiry* const asked_first = await(first);
  for (std::uint32_t i = 1; i < AwaitedInquiry::kPlaces; ++i) {
    std::thread([] { const AwaitedInquiry inquiry; }).join();
  }
  Asker last(1);
  Inquiry* const asked_last = await(last);
  last.expect_answer();
  asked_last->answered();
  EXPECT_EQ(last.join(), 0);
  first.expect_answer();
  asked_first->answered();
  EXPECT_EQ(first.join(), 0);
}

}  // namespace
}  // namespace sluice
