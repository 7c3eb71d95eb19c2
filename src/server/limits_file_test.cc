#include "server/limits_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "server/server.h"
#include "testing/error_of.h"

namespace sluice {
namespace {

/// The message of the error; empty if there is none.
std::string fault(std::string_view yaml) {
  return error_of<ConfigError>([&] { parse_limits(yaml, "f.yaml"); });
}

/// "LINE:COLUMN" of the fault.
std::string place(std::string_view yaml) {
  const std::string text = fault(yaml);
  EXPECT_TRUE(text.starts_with("f.yaml:")) << text;
  return text.substr(7, text.find(": ") - 7);
}

TEST(LimitsFileTest, ReadsAnyFormOfText) {
  EXPECT_TRUE(parse_limits("# comment\nlimits: {}", "f").empty());
  for (const std::string block : {"|", ">", "|+"}) {
    EXPECT_EQ(fault("limits:\n  a: " + block + "\n    token_bucket 1/1s\n\n"), "");
  }
}

TEST(LimitsFileTest, PointsIntoTheExpression) {
  const std::string bad = "sliding_log 5/10parsecs";
  std::size_t position = 0;
  try {
    const Limit limit(bad);
  } catch (const InvalidLimit& error) {
    position = error.position();
  }
  ASSERT_GT(position, 0U);
  const auto column = [&](std::size_t before) { return std::to_string(before + position + 1); };
  EXPECT_EQ(place("limits: {login: \"" + bad + "\"}"), "1:" + column(17));
  EXPECT_EQ(place("limits:\n  login: " + bad), "2:" + column(9));
  EXPECT_EQ(place("limits:\n  login: '" + bad + "'"), "2:" + column(10));
  // A folded text has no single place: its start.
  EXPECT_EQ(place("limits:\n  login: sliding_log\n    5/10parsecs"), "2:10");
}

TEST(LimitsFileTest, PointsAtEveryOtherFault) {
  EXPECT_EQ(fault(""), "f.yaml:1:1: the file is empty");
  EXPECT_EQ(fault("{}"), "f.yaml:1:1: the file has no 'limits'");
  EXPECT_EQ(fault("[1]"), "f.yaml:1:1: the file must be a map, with 'limits:' for example");
  EXPECT_EQ(
      fault("\nlimist: {}"),
      "f.yaml:2:1: there is no 'limist' in the file of limits (did you mean 'limits'?); there "
      "can be limits");
  EXPECT_EQ(fault("limits: {}\nlimits: {}"),
            "f.yaml:2:1: 'limits' is there twice in the file of limits");
  EXPECT_EQ(fault("limits: [1]"),
            "f.yaml:1:9: 'limits' must be a map of names to limit expressions");
  EXPECT_EQ(fault("limits:"), "f.yaml:1:1: 'limits' must be a map of names to limit expressions");
  EXPECT_EQ(fault("limits:\n  a: [1]"),
            "f.yaml:2:6: the limit 'a' must be a text like \"sliding_log 5/10m\", or a map with "
            "'limit'");
  EXPECT_EQ(fault("limits:\n  a:"),
            "f.yaml:2:3: the limit 'a' must be a text like \"sliding_log 5/10m\", or a map with "
            "'limit'");
  EXPECT_EQ(fault("limits:\n  [a]: b"), "f.yaml:2:3: a name in 'limits' must be a text");
  EXPECT_EQ(fault("limits:\n  '': sliding_log 5/10m"), "f.yaml:2:3: a name in 'limits' is empty");
  EXPECT_EQ(fault("limits:\n  cl: sliding_log 5/10m"),
            "f.yaml:2:3: limit name 'cl': this name belongs to CL.THROTTLE");
  EXPECT_EQ(fault("limits:\n  a: sliding_log 5/10m\n  a: sliding_log 6/10m"),
            "f.yaml:3:3: 'a' is there twice in 'limits'");
  EXPECT_EQ(place("limits:\n  a b: sliding_log 5/10m").substr(0, 2), "2:");
  EXPECT_EQ(fault("limits: {}\n---\nlimits: {}"), "f.yaml:2:1: there is a second document");
}

TEST(LimitsFileTest, RefusesWhatYamlReadsAsEndlesslyManyDocuments) {
  EXPECT_EQ(fault(", \""), "f.yaml:1:1: the file is empty");
}

/// The fault in a limit "a" whose members these are.
std::string fault_in_limit(const std::string& members) {
  return fault("limits: {a: {" + members + "}}");
}

TEST(LimitsFileTest, PointsAtMistakesInALimitWithMembers) {
  const std::string limit = "limit: fixed_window 5/1m, ";
  EXPECT_EQ(fault_in_limit("dry_run: no"), "f.yaml:1:13: the limit 'a' has no 'limit'");
  EXPECT_EQ(
      fault_in_limit("limit: fixed_window 5/1x"),
      "f.yaml:1:37: limit 'fixed_window 5/1x': the unit 'x' is unknown; the units of time are "
      "ns us ms s m h d w, at character 17");
  EXPECT_EQ(fault_in_limit("limit: [5]"),
            "f.yaml:1:21: 'limit' must be a limit like \"sliding_log 5/10m\"");
  EXPECT_EQ(
      fault_in_limit(limit + "dryrun: yes"),
      "f.yaml:1:40: there is no 'dryrun' in the limit 'a' (did you mean 'dry_run'?); there can "
      "be limit, dry_run, key, overrides");
  EXPECT_EQ(fault_in_limit(limit + "dry_run: perhaps"), "f.yaml:1:49: 'dry_run' must be yes or no");
  EXPECT_EQ(fault_in_limit(limit + "key: []"), "f.yaml:1:45: 'key' must be a text like \"{ip}\"");
  EXPECT_EQ(
      fault_in_limit(limit + "key: \"{ip}/{user}\""),
      "f.yaml:1:51: the key has no field {user}: there are {ip}, {header:Name}, {query:name}, "
      "{method}, {path} and {host}");
  EXPECT_EQ(fault_in_limit(limit + "key: ip"),
            "f.yaml:1:45: all requests would have the same key; did you mean {ip}?");
  EXPECT_EQ(fault_in_limit(limit + "key: header:X-User"),
            "f.yaml:1:45: all requests would have the same key; did you mean {header:X-User}?");
  EXPECT_EQ(fault_in_limit(limit + "key: 'a{ip'"),
            "f.yaml:1:47: the key has a brace without its other; a brace itself is written twice");
  EXPECT_EQ(fault_in_limit(limit + "overrides: yes"),
            "f.yaml:1:51: 'overrides' must be a list, of {key: \"a\", deny: yes} for example");
  EXPECT_EQ(fault("limits:\n  a b:\n    limit: fixed_window 5/1m").substr(0, 11), "f.yaml:2:3:");
}

TEST(LimitsFileTest, PointsAtMistakesInAnOverride) {
  const auto in_override = [](const std::string& members) {
    return fault("limits:\n  a:\n    limit: fixed_window 5/1m\n    overrides:\n    - {" + members +
                 "}");
  };
  EXPECT_EQ(in_override("key: x, deny: yes"), "");
  EXPECT_EQ(in_override("deny: yes"), "f.yaml:5:7: an override must have a 'key'");
  EXPECT_EQ(in_override("key: x"),
            "f.yaml:5:7: an override must have 'limit', 'unlimited' or 'deny'");
  EXPECT_EQ(in_override("key: x, deny: yes, unlimited: yes"),
            "f.yaml:5:27: an override has one of 'limit', 'unlimited' and 'deny'");
  EXPECT_EQ(in_override("key: x, deny: no"), "f.yaml:5:22: 'deny' is yes, or left out");
  EXPECT_EQ(in_override("key: x, denny: yes"),
            "f.yaml:5:16: there is no 'denny' in an override (did you mean 'deny'?); there can be "
            "key, limit, unlimited, deny");
  EXPECT_EQ(in_override("key: x, limit: fixed_window 5/1x").substr(0, 12), "f.yaml:5:39:");
  EXPECT_EQ(
      in_override("key: x, limit: concurrency 5"),
      "f.yaml:5:23: an override lends permits, as a concurrency limit does, if and only if its "
      "limit does");
  EXPECT_EQ(in_override("key: x, deny: yes}\n    - {key: x, unlimited: yes"),
            "f.yaml:6:7: the limit 'a' has two overrides for 'x'");
  EXPECT_EQ(in_override("key: " + std::string(1025, 'x') + ", deny: yes"),
            "f.yaml:5:13: the key of an override has at most 1024 bytes");
  EXPECT_EQ(fault("limits: {a: {limit: fixed_window 5/1m, overrides: [x]}}"),
            "f.yaml:1:52: an override must be a map");
}

TEST(LimitsFileTest, BoundsTheOverrides) {
  const auto with = [](const std::string& key, std::size_t count) {
    std::string yaml = "limits:\n  a:\n    limit: fixed_window 5/1m\n    overrides:\n";
    for (std::size_t i = 0; i < count; ++i) {
      yaml += "    - {key: \"" + key + std::to_string(i) + "\", deny: yes}\n";
    }
    return yaml;
  };
  EXPECT_EQ(fault(with("*", kMaxPatterns)), "");
  EXPECT_EQ(fault(with("*", kMaxPatterns + 1)),
            "f.yaml:261:7: the limit 'a' has more than 256 overrides whose key is a pattern");
  EXPECT_EQ(fault(with("", kMaxOverrides + 1)),
            "f.yaml:10005:7: there are more than 10000 overrides");
}

TEST(LimitsFileTest, BoundsTheNumberOfLimits) {
  std::string yaml = "limits:\n";
  for (std::size_t i = 0; i < kMaxNamedLimits; ++i) {
    yaml += "  limit" + std::to_string(i) + ": sliding_log 5/10m\n";
  }
  EXPECT_EQ(parse_limits(yaml, "f").size(), kMaxNamedLimits);
  EXPECT_EQ(fault(yaml + "  more: sliding_log 5/10m\n  most: sliding_log 5/10m"),
            "f.yaml:258:3: there are more than 256 limits");
}

TEST(LimitsFileTest, SaysWhereYamlIsBroken) {
  EXPECT_TRUE(fault("limits: {login: \n").find(": this is not YAML: ") != std::string::npos);
  EXPECT_TRUE(fault("limits: " + std::string(5000, '[')).find("nested too deeply") !=
              std::string::npos);
  // As a file system may leave it.
  for (const std::string end : {"", "\n ", "\n#"}) {
    const std::string half = "limits: {}" + end + '\0';
    EXPECT_EQ(place(half), end.empty() ? "1:11" : "2:2");
    EXPECT_THAT(fault(half), testing::HasSubstr(": a byte is zero: was it written whole"));
  }
  const std::string wide("\xFF\xFEl\0:\0", 6);  // In UTF-16.
  EXPECT_THAT(fault(wide), testing::Not(testing::HasSubstr("zero")));
  EXPECT_EQ(place("limits:\n  a: \"x").substr(0, 2), "2:");
  EXPECT_EQ(place("limits: *nobody"), "1:9");
}

TEST(LimitsFileTest, ReadsAFileOrSaysWhyNot) {
  const std::string path = testing::TempDir() + "sluice_limits.yaml";
  std::ofstream(path) << "limits: {login: sliding_log 5/10m}";
  EXPECT_EQ(read_limits_file(path).size(), 1U);
  std::ofstream(path) << std::string(kMaxConfigBytes + 1, '#');
  const auto why = [](const std::string& file) {
    return error_of<ConfigError>([&] { read_limits_file(file); });
  };
  EXPECT_EQ(why(path), path + ": the file cannot be read: it has more than 1048576 bytes");
  std::filesystem::remove(path);
  EXPECT_EQ(why(path), path + ": the file cannot be read: No such file or directory");
  EXPECT_EQ(why("/dev/zero"), "/dev/zero: the file cannot be read: it has more than 1048576 bytes");
  EXPECT_EQ(why("/"), "/: the file cannot be read: Is a directory");
}

}  // namespace
}  // namespace sluice
