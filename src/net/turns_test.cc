// A connection with much to answer lets the others of its thread go on.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/stream_server.h"
#include "testing/line_server.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

std::unique_ptr<StreamServer> serve(MakeHandler handlers) {
  auto server = std::make_unique<StreamServer>(
      std::vector<Service>{{any_port(), std::move(handlers), "no room\n"}}, StreamServerOptions{});
  server->start();
  return server;
}

TEST(Turns, ServesOthersWhileOneHasMoreAndMoreToAnswer) {
  /// Echoes lines, and has more to do after "endless" until the test ends.
  class EndlessHandler final : public LineHandler {
   public:
    explicit EndlessHandler(std::shared_ptr<std::atomic<bool>> is_over)
        : is_over_(std::move(is_over)) {}

    Progress on_data(std::string_view input, std::string& output) override {
      const bool begins = input == "endless\n";
      Progress progress = LineHandler::on_data(input, output);
      is_endless_ = (is_endless_ || begins) && !*is_over_;
      if (is_endless_) progress.next = Next::kMore;
      return progress;
    }

   private:
    std::shared_ptr<std::atomic<bool>> is_over_;
    bool is_endless_ = false;
  };
  const auto is_over = std::make_shared<std::atomic<bool>>(false);
  const auto server =
      serve([=](const AcceptedStream&) { return std::make_unique<EndlessHandler>(is_over); });
  Client endless(server->addresses()[0]);
  EXPECT_TRUE(endless.send("endless\n"));
  EXPECT_EQ(endless.read(8), "endless\n");
  Client other(server->addresses()[0]);
  EXPECT_TRUE(other.send("other\n"));
  EXPECT_EQ(other.read(6), "other\n");
  EXPECT_TRUE(endless.send("more\n"));
  EXPECT_EQ(endless.read(5), "more\n");
  *is_over = true;
}

TEST(Turns, APeerWaitsForOneTurnOfAnother) {
  struct Turns {
    int begun = 0;
    std::function<void()> in_first;
    std::function<void()> before_second;
  };
  // Answers "slow" after three turns, and everything else with the number of turns until then.
  class SlowHandler final : public LineHandler {
   public:
    explicit SlowHandler(Turns& turns) : turns_(turns) {}

    Progress on_data(std::string_view input, std::string& output) override {
      if (input != "slow\n") {
        if (!input.empty()) output += std::to_string(turns_.begun) + "\n";
        return {.consumed = input.size()};
      }
      if (turns_.begun == 1) turns_.before_second();
      if (++turns_.begun == 1) turns_.in_first();
      const auto end = std::chrono::steady_clock::now() + milliseconds(2);
      while (std::chrono::steady_clock::now() < end) {  // Longer than a turn.
      }
      if (turns_.begun < 3) return {.next = Next::kMore};
      return LineHandler::on_data(input, output);
    }

   private:
    Turns& turns_;
  };
  Turns turns;
  const auto server = serve(handlers_of<SlowHandler>(turns));
  Client slow(server->addresses()[0]);
  Client other(server->addresses()[0]);
  ASSERT_TRUE(other.send("first\n"));
  ASSERT_EQ(other.read(2), "0\n");
  turns.in_first = [&] { EXPECT_TRUE(other.send("second\n")); };
  turns.before_second = [&] { EXPECT_EQ(other.read(2), "1\n"); };
  ASSERT_TRUE(slow.send("slow\n"));
  EXPECT_EQ(slow.read(5), "slow\n");
}

}  // namespace
}  // namespace sluice
