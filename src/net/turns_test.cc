// A connection with much to answer lets the others of its thread go on.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
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
  // Echoes lines, and has more to do after "endless" until the test ends.
  std::atomic<bool> is_over = false;
  const auto server =
      serve(handlers_calling([&, is_endless = false](LineHandler& lines, std::string_view input,
                                                     std::string& output) mutable {
        auto progress = lines.on_data(input, output);
        is_endless = (is_endless || input == "endless\n") && !is_over;
        if (is_endless) progress.next = StreamHandler::Next::kMore;
        return progress;
      }));
  Client endless(server->addresses()[0]);
  EXPECT_TRUE(endless.send("endless\n"));
  EXPECT_EQ(endless.read(8), "endless\n");
  Client other(server->addresses()[0]);
  EXPECT_TRUE(other.send("other\n"));
  EXPECT_EQ(other.read(6), "other\n");
  EXPECT_TRUE(endless.send("more\n"));
  EXPECT_EQ(endless.read(5), "more\n");
  is_over = true;
}

TEST(Turns, APeerWaitsForOneTurnOfAnother) {
  int begun = 0;
  std::function<void()> in_first;
  std::function<void()> before_second;
  // Answers "slow" after three turns, and everything else with the number of turns until then.
  const auto server = serve(handlers_calling([&](LineHandler& lines, std::string_view input,
                                                 std::string& output) -> StreamHandler::Progress {
    if (input != "slow\n") {
      if (!input.empty()) output += std::to_string(begun) + "\n";
      return {.consumed = input.size()};
    }
    if (begun == 1) before_second();
    if (++begun == 1) in_first();
    const auto end = std::chrono::steady_clock::now() + milliseconds(2);
    while (std::chrono::steady_clock::now() < end) {  // Longer than a turn.
    }
    if (begun < 3) return {.next = StreamHandler::Next::kMore};
    return lines.on_data(input, output);
  }));
  Client slow(server->addresses()[0]);
  Client other(server->addresses()[0]);
  ASSERT_TRUE(other.send("first\n"));
  ASSERT_EQ(other.read(2), "0\n");
  in_first = [&] { EXPECT_TRUE(other.send("second\n")); };
  before_second = [&] { EXPECT_EQ(other.read(2), "1\n"); };
  ASSERT_TRUE(slow.send("slow\n"));
  EXPECT_EQ(slow.read(5), "slow\n");
}

}  // namespace
}  // namespace sluice
