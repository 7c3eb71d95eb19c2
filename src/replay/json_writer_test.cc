#include "replay/json_writer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>

namespace sluice::replay {
namespace {

std::string sample(JsonWriter::Layout layout) {
  JsonWriter json(layout);
  json.open('{');
  json.add("text", "a\"\n");
  json.add("least", INT64_MIN);
  json.add("most", UINT64_MAX);
  json.add("yes", true);
  json.add("nothing", nullptr);
  json.open("empty", '[');
  json.close(']');
  json.add_objects("objects", std::array{0, 1}, [&](int i) { json.add("i", i); });
  json.name("numbers");
  json.add_numbers(std::array{1, 2}, [](int number) { return 10 * number; });
  json.close('}');
  return std::move(json).text();
}

TEST(JsonWriter, WritesWithoutSpaces) {
  EXPECT_EQ(sample(JsonWriter::Layout::kCompact),
            R"({"text":"a\"\u000a","least":-9223372036854775808,"most":18446744073709551615,)"
            R"("yes":true,"nothing":null,"empty":[],"objects":[{"i":0},{"i":1}],)"
            R"("numbers":[10,20]})");
}

TEST(JsonWriter, WritesAValueOnEachLine) {
  EXPECT_EQ(sample(JsonWriter::Layout::kIndented), R"({
  "text": "a\"\u000a",
  "least": -9223372036854775808,
  "most": 18446744073709551615,
  "yes": true,
  "nothing": null,
  "empty": [],
  "objects": [
    {
      "i": 0
    },
    {
      "i": 1
    }
  ],
  "numbers": [
    10,
    20
  ]
})");
}

}  // namespace
}  // namespace sluice::replay
