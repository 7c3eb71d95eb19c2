#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/http_connection.h"
#include "testing/served_store.h"

namespace sluice::http {
namespace {

using testing::HasSubstr;

class SimulateTest : public ConnectionTest<still_store> {
 protected:
  Reply ask(const std::string& body) { return connection.ask_one(post("/v1/simulate", body)); }
  void expect_refused(const std::string& body, const std::string& why) {
    const Reply reply = ask(body);
    EXPECT_EQ(reply.status, 400) << body.substr(0, 100);
    EXPECT_THAT(reply.body, HasSubstr(why)) << body.substr(0, 100);
  }
};

TEST_F(SimulateTest, DecidesInVirtualTimeAndAsksNoStore) {
  const Reply reply =
      ask(R"({"limits":["token_bucket 2/1s","leaky_bucket 1/1s queue=1"],)"
          R"("arrivals":[0,0.5,{"at_ms":1,"cost":1},500.5,{"at_ms":2000,"cost":3}]})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("Content-Type"), "application/json");
  EXPECT_EQ(reply.body,
            R"({"limits":[{"limit":"token_bucket 2/1s","allowed":[true,true,false,true,false],)"
            R"("remaining":[1,0,0,0,2],"retry_after_ms":[0,0,499,0,null],)"
            R"("reset_after_ms":[500,1000,999,1000,0],"delay_ms":[0,0,0,0,0]},)"
            R"({"limit":"leaky_bucket 1/1s queue=1","allowed":[true,true,false,false,false],)"
            R"("remaining":[1,0,0,0,2],"retry_after_ms":[0,0,999,500,null],)"
            R"("reset_after_ms":[1000,2000,1999,1500,0],"delay_ms":[0,1000,0,0,0]}]})");
}

TEST_F(SimulateTest, TakesNoArrivals) {
  EXPECT_EQ(ask(R"({"limits":["fixed_window 1/1s"],"arrivals":[],"key":"a"})").body,
            R"({"limits":[{"limit":"fixed_window 1/1s","allowed":[],"remaining":[],)"
            R"("retry_after_ms":[],"reset_after_ms":[],"delay_ms":[]}]})");
}

TEST_F(SimulateTest, NamesWhatIsWrongAndWhere) {
  expect_refused(R"({"limits":[],"arrivals":[]})", "there must be 1 to 16 limits");
  expect_refused(R"({"limits":[1],"arrivals":[]})", "\\\"limits\\\"[0] must be a string");
  expect_refused(R"({"limits":["fixed_window 1/1s","fixed_window 1/1x"],"arrivals":[]})",
                 R"("index":1,"offset":16)");
  const std::string good = R"({"limits":["fixed_window 1/1s"],"arrivals":)";
  expect_refused(good + "[2,1]}", "[1] is before the one in front of it");
  expect_refused(good + "[-1]}", R"(\"arrivals\"[0]: there must be a time in milliseconds)");
  expect_refused(good + "[1e300]}", R"(\"arrivals\"[0]: there must be a time in milliseconds)");
  expect_refused(good + R"(["1"]})", R"(\"arrivals\"[0]: there must be a time in milliseconds)");
  expect_refused(good + R"([0,{"cost":1}]})",
                 R"(\"arrivals\"[1]: the member \"at_ms\" is missing)");
  expect_refused(good + R"([{"at_ms":1,"cost":-1}]})",
                 R"(\"arrivals\"[0]: the member \"cost\" must be an integer)");
  expect_refused(good + R"([{"at_ms":1,"price":1}]})",
                 R"(\"arrivals\"[0]: the member \"price\" is unknown)");
  expect_refused(good + R"([],"keys":1})", R"(\"keys\" is unknown (did you mean 'key'?))");
}

TEST_F(SimulateTest, IsBounded) {
  const auto body = [](std::size_t limits, std::size_t arrivals) {
    std::string text = R"({"limits":[)";
    for (std::size_t i = 0; i < limits; ++i) text += R"("fixed_window 1/1s",)";
    text.back() = ']';
    text += R"(,"arrivals":[)";
    for (std::size_t i = 0; i < arrivals; ++i) text += "0,";
    text.back() = ']';
    return text + "}";
  };
  EXPECT_EQ(ask(body(2, 10'000)).status, 200);
  expect_refused(body(3, 10'000), "more than 20000 decisions");
  expect_refused(body(1, 10'001), "at most 10000");
  expect_refused(body(17, 1), "1 to 16 limits");
}

}  // namespace
}  // namespace sluice::http
