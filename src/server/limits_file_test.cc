#include "server/limits_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "server/server.h"

namespace sluice {
namespace {

std::string fault(std::string_view yaml) {
  try {
    parse_limits(yaml, "f.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no fault";
}

/// "LINE:COLUMN" of the fault.
std::string place(std::string_view yaml) {
  const std::string text = fault(yaml);
  EXPECT_TRUE(text.starts_with("f.yaml:")) << text;
  return text.substr(7, text.find(": ") - 7);
}

TEST(LimitsFileTest, ReadsNamesAndExpressions) {
  const std::vector<Limit> limits = parse_limits(
      "# comment\nlimits:\n  login: sliding_log 5/10m\n  api.v1: \"token_bucket 100/s "
      "burst=200\"\n",
      "f");
  ASSERT_EQ(limits.size(), 2U);
  EXPECT_EQ(limits[0].space(), "login");
  EXPECT_EQ(limits[0].expression(), Limit("sliding_log 5/10m").expression());
  EXPECT_EQ(limits[1].space(), "api.v1");
  EXPECT_EQ(limits[1].expression(), Limit("token_bucket 100/1s burst=200").expression());
  EXPECT_TRUE(parse_limits("limits: {}", "f").empty());
  EXPECT_EQ(parse_limits("limits: {jobs: concurrency 4 lease=30s}", "f")[0].expression(),
            "concurrency 4 lease=30s");
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
            "f.yaml:2:6: the limit 'a' must be a text like \"sliding_log 5/10m\"");
  EXPECT_EQ(fault("limits:\n  a:"),
            "f.yaml:2:3: the limit 'a' must be a text like \"sliding_log 5/10m\"");
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
  EXPECT_EQ(place("limits:\n  a: \"x").substr(0, 2), "2:");
  EXPECT_EQ(place("limits: *nobody"), "1:9");
}

TEST(LimitsFileTest, ReadsAFileOrSaysWhyNot) {
  const std::string path = testing::TempDir() + "sluice_limits.yaml";
  std::ofstream(path) << "limits: {login: sliding_log 5/10m}";
  EXPECT_EQ(read_limits_file(path).size(), 1U);
  std::ofstream(path) << std::string(kMaxConfigBytes + 1, '#');
  const auto why = [](const std::string& file) -> std::string {
    try {
      read_limits_file(file);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no fault";
  };
  EXPECT_EQ(why(path), path + ": the file cannot be read: it has more than 1048576 bytes");
  std::filesystem::remove(path);
  EXPECT_EQ(why(path), path + ": the file cannot be read: No such file or directory");
  EXPECT_EQ(why("/"), "/: the file cannot be read: Is a directory");
}

}  // namespace
}  // namespace sluice
