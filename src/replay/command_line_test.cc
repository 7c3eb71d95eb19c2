#include "replay/command_line.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "servers/temporary_folder.h"

namespace sluice::replay {
namespace {

TEST(CommandLine, LeavesOutDefaults) {
  EXPECT_EQ(
      command_line({.log = {.files = {"access.log", "a b.log"}}, .limits = {"fixed_window 5/1m"}}),
      "sluice replay access.log 'a b.log' --limit 'fixed_window 5/1m'");
}

TEST(CommandLine, HasEveryOption) {
  EXPECT_EQ(
      command_line({.log = {.key = "it's {ip}", .format = Format::kJsonLines, .is_strict = true},
                    .limits = {"a", "b"},
                    .decisions = "-",
                    .html = "out.html",
                    .has_plot = true,
                    .is_json = true}),
      R"(sluice replay --limit a --limit b --key 'it'"'"'s {ip}' --format jsonl --decisions -)"
      " --strict --json --plot --html out.html");
}

TEST(CommandLine, AShellReadsTheSameWords) {
  const servers::TemporaryFolder directory;
  const std::string line =
      command_line({.log = {.files = {"-", "-x.log", "x'$(exit 1)'.log"}, .key = "ä"},
                    .limits = {R"(a  \ "b")"}});
  const std::string script =
      directory.write("script", "sluice() { printf '<%s>' \"$@\"; }\n" + line);
  const std::string out = directory.path("out");
  for (const std::string shell : {"sh", "bash"}) {
    ASSERT_EQ(std::system((shell + " " + script + " > " + out).c_str()), 0);
    EXPECT_EQ(directory.read("out"),
              R"(<replay><-><./-x.log><x'$(exit 1)'.log><--limit><a  \ "b"><--key><ä>)");
  }
}

TEST(CommandLine, HasNoByteThatATerminalMightInterpret) {
  EXPECT_EQ(command_line({.log = {.files = {"\x1b[2J'$(id)'\\\xff ä"}}}),
            R"(sluice replay $'\033[2J\047$(id)\047\134\377 \303\244')");
  // NOLINTNEXTLINE(misc-misleading-bidirectional)
  EXPECT_EQ(command_line({.log = {.files = {"\u202e"}}}), R"(sluice replay $'\342\200\256')");
}

TEST(CommandLine, IsBounded) {
  const std::string line =
      command_line({.log = {.files = std::vector<std::string>(1'000, "access.log")}});
  EXPECT_LE(line.size(), kMaxCommandBytes);
  EXPECT_TRUE(line.ends_with(" access.log …"));
}

TEST(CommandLine, HidesThePassword) {
  const std::string line =
      command_line({.limits = {"a"}, .store = "redis://user:secret@127.0.0.1:6379"});
  EXPECT_NE(line.find("127.0.0.1"), std::string::npos);
  EXPECT_EQ(line.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace sluice::replay
