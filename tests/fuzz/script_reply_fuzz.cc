// For any bytes as the reply to a call of the script, each of its requests has a decision in the
// range of its limit, or an error.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "check.h"
#include "sluice/limit.h"
#include "stores/redis/redis_space.h"
#include "testing/script_requests.h"

namespace {

using namespace sluice;

constexpr Instant kNow = 1'700'000'000'000'000'000;

// One request of each kind of state and of each operation, an `&`, and two together.
class Asked {
 public:
  Asked() {
    for (std::size_t i = 0; i < kLimits; ++i) {
      requests_[i] = {
          .limit = &limits_[i].definition(), .space = &spaces_[i], .key = "k", .cost = 2};
    }
    requests_[1].cost = 0;
    requests_[2].operation = Operation::kBlock;
    requests_[2].duration_ns = 5;
    requests_[3].operation = Operation::kRefund;
    requests_[4].operation = Operation::kReset;
    requests_[7].operation = Operation::kTakeUpTo;
    requests_[7].cost = 5;
    requests_[8].operation = Operation::kCharge;
    requests_[10].operation = Operation::kRenew;
    requests_[11].operation = Operation::kRelease;
    for (std::size_t i = 9; i < kLimits; ++i) requests_[i].cost = 1;
    for (std::size_t i = 0; i < kLimits; ++i) check(call_.add({&requests_[i], 1}, decisions_[i]));
    check(call_.add(std::span(requests_).subspan(5, 2), decisions_[kLimits]));
  }

  void read(std::string_view reply) {
    const bool readable = call_.read(reply);
    check(readable || !call_.errors()[kLimits].empty());
    for (std::size_t i = 0; i <= kLimits; ++i) {
      const Decision& decision = decisions_[i];
      check((decision.source == Source::kUnavailable) == !call_.errors()[i].empty());
      if (decision.source == Source::kUnavailable) continue;
      check(decision.remaining >= 0 && decision.remaining <= decision.limit);
      check(decision.allowed ? decision.retry_after.count() == 0
                             : decision.retry_after.count() > 0);
    }
  }

 private:
  static constexpr std::size_t kLimits = 12;

  std::array<Limit, kLimits> limits_{Limit("token_bucket 5/1m"),
                                     Limit("leaky_bucket 5/1m queue=3"),
                                     Limit("fixed_window 5/1m anchor=first"),
                                     Limit("sliding_window 5/1m"),
                                     Limit("sliding_counter 5/1m"),
                                     Limit("sliding_log 5/1m"),
                                     Limit("sliding_log 5/1m & fixed_window 9/1m"),
                                     Limit("sliding_log 5/1m & token_bucket 9/1m"),
                                     Limit("sliding_window 5/1m & sliding_counter 9/1m"),
                                     Limit("concurrency 5"),
                                     Limit("concurrency 5 lease=1s"),
                                     Limit("concurrency 1")};
  std::array<redis::RedisSpace, kLimits> spaces_{space(0), space(1), space(2),  space(3),
                                                 space(4), space(5), space(6),  space(7),
                                                 space(8), space(9), space(10), space(11)};
  std::array<Request, kLimits> requests_;
  std::array<Decision, kLimits + 1> decisions_;
  redis::ScriptRequests call_{{}, kNow};

  redis::RedisSpace space(std::size_t i) const { return {"sluice", limits_[i].definition()}; }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  std::string reply(reinterpret_cast<const char*>(data) + 1, size - 1);
  // An odd first byte: the rest is what follows the call's number and the instant.
  if (data[0] % 2 == 1) {
    reply.insert(0, sizeof redis::kNumber + sizeof kNow, '\0');
    std::memcpy(reply.data(), &redis::kNumber, sizeof redis::kNumber);
    std::memcpy(reply.data() + sizeof redis::kNumber, &kNow, sizeof kNow);
    reply = "$" + std::to_string(reply.size()) + "\r\n" + reply + "\r\n";
  }
  Asked asked;
  asked.read(reply);
  return 0;
}
