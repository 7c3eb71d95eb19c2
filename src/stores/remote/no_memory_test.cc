// The system has no memory: whoever asks is answered by the deadline all the same.

#include <gtest/gtest.h>

#include <string_view>

#include "core/waiting.h"
#include "net/refused_memory_test.h"
#include "net/run_on_loop_test.h"
#include "stores/remote/courier.h"

namespace sluice {
namespace {

class SilentCarrier final : public Carrier {
 public:
  void carry(Errand&) override {}
  void dispatch() override {}
  std::string_view abandon(Errand&) override { return "it is late"; }
};

TEST(CourierWithoutMemory, LooksForLateTrips) {
  SilentCarrier carrier;
  Courier courier(carrier, {.deadline = std::chrono::milliseconds(1)});
  courier.start([] {});
  const auto refuse = [] { refused_bytes = 1; };
  run_on_loop(courier.loop(), refuse);
  for (int i = 0; i < 3; ++i) {
    const Request request{.key = "k"};
    Decision decision;
    AwaitedInquiry inquiry;
    inquiry.requests = {&request, 1};
    inquiry.decisions = {&decision, 1};
    ASSERT_TRUE(courier.submit(inquiry));
    inquiry.wait();
    EXPECT_EQ(decision.source, Source::kUnanswered);
    EXPECT_EQ(inquiry.fault, "it is late");
  }
}

}  // namespace
}  // namespace sluice
