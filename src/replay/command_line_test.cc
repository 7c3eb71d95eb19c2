#include "replay/command_line.h"

#include <gtest/gtest.h>

namespace sluice::replay {
namespace {

TEST(CommandLine, LeavesOutDefaults) {
  EXPECT_EQ(command_line({.files = {"access.log", "a b.log"}, .limits = {"fixed_window 5/1m"}}),
            "sluice replay access.log 'a b.log' --limit 'fixed_window 5/1m'");
}

TEST(CommandLine, HasEveryOption) {
  EXPECT_EQ(command_line({.limits = {"a", "b"},
                          .key = "it's {ip}",
                          .format = Format::kJsonLines,
                          .decisions = "-",
                          .html = "out.html",
                          .has_plot = true,
                          .is_strict = true,
                          .is_json = true}),
            "sluice replay --limit a --limit b --key 'it'\\''s {ip}' --format jsonl --decisions - "
            "--strict --json --plot --html out.html");
}

TEST(CommandLine, HidesThePassword) {
  const std::string line =
      command_line({.limits = {"a"}, .store = "redis://user:secret@127.0.0.1:6379"});
  EXPECT_NE(line.find("127.0.0.1"), std::string::npos);
  EXPECT_EQ(line.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace sluice::replay
