// What a key does that loses one race after the other. No sockets.

#include "stores/memcached/carrier_under_test.h"

namespace sluice::memcached {
namespace {

using testing::HasSubstr;

// Of two who lose to each other in step, one lets the other pass.
TEST_F(MemcachedCarrierTest, AfterEveryEighthLostRaceAKeyRests) {
  const Ask& asked = ask("k");
  for (unsigned lost = 1; lost <= 2 * MemcachedCarrier::kLossesBeforeRest; ++lost) {
    EXPECT_EQ(sent(), kRead);  // Waits for a turn that rests.
    answer(value(1, lost));
    sent();
    there([&] {
      std::exchange(exchange_, nullptr)->on_reply("EX O0\r\nMN\r\n");
      exchange_ = lane().next_exchange();
      EXPECT_EQ(exchange_ == nullptr, lost % MemcachedCarrier::kLossesBeforeRest == 0) << lost;
    });
  }
  EXPECT_EQ(sent(), kRead);
  EXPECT_EQ(kicks_, 3);
  answer(value(5, 90));
  EXPECT_TRUE(asked.inquiry.is_answered);
}

// Its caller's time is up while the key rests: the caller is told why, and then the key is done.
TEST_F(MemcachedCarrierTest, WhoGoesWhileItsKeyRestsIsToldOfTheRaces) {
  Errand& errand = carry_own();
  for (unsigned lost = 1; lost < MemcachedCarrier::kLossesBeforeRest; ++lost) {
    sent();
    answer(value(1, lost));
    sent();
    answer("EX O0\r\nMN\r\n");
  }
  sent();
  answer(value(1, 8));
  sent();
  std::string why;
  there([&] {
    std::exchange(exchange_, nullptr)->on_reply("EX O0\r\nMN\r\n");
    why = carrier_.abandon(errand);
    EXPECT_EQ(carrier_.under_way(), 1U);
  });
  EXPECT_EQ(why,
            "memcached a:1 did not answer within 10ms: others changed 'sluice:login:k' first, "
            "8 times");
  std::size_t left = 1;
  while (left > 0) there([&] { left = carrier_.under_way(); });
  EXPECT_TRUE(is_quiet());
}

// Nothing can be written over a value whose token is not known.
TEST_F(MemcachedCarrierTest, AServerWithoutTokensIsToldFromALostRace) {
  const Ask& asked = ask("k");
  const Ask& reset = ask("k", 1, Operation::kReset);
  sent();
  answer(value(1, 0));
  for (const Ask* one : {&asked, &reset}) {
    EXPECT_EQ(one->decision.source, Source::kUnanswered);
    EXPECT_THAT(one->inquiry.fault, HasSubstr("memcached a:1 keeps no cas tokens (-C)"));
  }
  EXPECT_EQ(carrier_.under_way(), 0U);
  EXPECT_TRUE(is_quiet());
}

}  // namespace
}  // namespace sluice::memcached
