#include "protocols/resp/repetition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "protocols/resp/parser.h"
#include "testing/resp_connection.h"

namespace sluice::resp {
namespace {

using Texts = std::vector<std::string>;

Texts texts(const Parser& parser) {
  return {parser.arguments().begin(), parser.arguments().end()};
}

const Texts kThrottle{"CL.THROTTLE", "a", "15", "30", "60"};

TEST(Repetition, IsNotFoundInTheMiddleOfACommand) {
  Parser parser;
  ASSERT_EQ(parser.next(array(kThrottle)), Parser::Result::kCommand);
  ASSERT_EQ(parser.next("*2\r\n$400\r\n"), Parser::Result::kNeedMore);
  EXPECT_EQ(parser.next_repeated(array(kThrottle)), std::nullopt);
}

// Pieces of commands that are alike, some of them broken.
rc::Gen<std::string> streams() {
  const auto texts = rc::gen::element<std::string>("CL.THROTTLE", "PING", "a", "b", "", "15",
                                                   std::string(12, 'k'), std::string(70, 't'));
  const auto commands = rc::gen::map(rc::gen::container<Texts>(texts), [](Texts arguments) {
    if (arguments.size() > 9) arguments.resize(9);
    return array(arguments);
  });
  const auto alike = rc::gen::map(
      rc::gen::element<std::string>("a", "b", "$1", "", "\r\n$2\r\n", std::string(20, 'k')),
      [](const std::string& key) {
        return array({"CL.THROTTLE", key, "15", "30", "60"});
      });
  const auto others = rc::gen::element<std::string>(
      "PING\r\n", "*0\r\n", "CL.THROTTLE a 1 2 3\r\n",
      "*5\r\n$11\r\nCL.THROTTLE\r\n$01\r\na\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n",
      "*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nab\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n");
  return rc::gen::map(rc::gen::container<Texts>(rc::gen::weightedOneOf<std::string>(
                          {{6, alike}, {2, commands}, {1, others}})),
                      [](const Texts& pieces) {
                        std::string stream;
                        for (const auto& piece : pieces) stream += piece;
                        return stream;
                      });
}

// A parser that remembers the last command reads the same as a new parser for each command.
RC_GTEST_PROP(Repetition, ChangesNothingThatIsRead, ()) {
  const std::string stream = *streams();
  Parser remembers;
  for (std::size_t at = 0;;) {
    const std::string_view input = std::string_view(stream).substr(at);
    Parser fresh;
    const auto result = fresh.next(input);
    const auto repeated = remembers.next_repeated(input);
    if (repeated) RC_ASSERT(remembers.consumed() == fresh.consumed());
    RC_ASSERT(remembers.next(input) == result);
    if (result != Parser::Result::kCommand) return;
    RC_ASSERT(texts(remembers) == texts(fresh));
    RC_ASSERT(remembers.consumed() == fresh.consumed());
    if (repeated) RC_ASSERT(*repeated == fresh.arguments()[1]);
    at += fresh.consumed();
  }
}

}  // namespace
}  // namespace sluice::resp
