// permit_holder URL LIMIT: a process that takes permits of one key, as it is told on its input:
//
//     acquire MS      granted NS | denied NS         waits as long; NS is the time of the answer
//     try             granted NS | denied NS
//     release MS      released NS                    so much later
//     held            yes | no
//     loop MS HOLD    (nothing)                      acquires, holds for HOLD ms, releases, again
//                                                    and again for MS ms; then: rounds N
//                                                    LONGEST_WAIT_NS
//
// When its permit expires it says "expired NS". Times are those of the monotonic clock, which all
// processes share.

#include <algorithm>
#include <chrono>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "sluice/sluice.h"

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr const char* kKey = "k";

std::mutex output;

std::string now() {
  return std::to_string(nanoseconds(steady_clock::now().time_since_epoch()).count());
}

void say(const std::string& line) {
  const std::lock_guard lock(output);
  std::cout << line << std::endl;
}

void loop(sluice::ConcurrencyLimiter& limiter, milliseconds time, milliseconds hold) {
  int rounds = 0;
  nanoseconds longest{0};
  const auto end = steady_clock::now() + time;
  while (steady_clock::now() < end) {
    const auto began = steady_clock::now();
    const sluice::Permit permit = limiter.acquire(kKey, std::chrono::minutes(1));
    longest = std::max<nanoseconds>(longest, steady_clock::now() - began);
    if (!permit) break;
    std::this_thread::sleep_for(hold);
    ++rounds;
  }
  say("rounds " + std::to_string(rounds) + " " + std::to_string(longest.count()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  // Static: they are destroyed when the process exits, the permit last.
  static sluice::Permit permit;
  static sluice::ConcurrencyLimiter limiter(sluice::open_store(argv[1]),
                                            sluice::Limit(argv[2], "jobs"));
  const auto take = [&](sluice::Permit taken) {
    permit = std::move(taken);
    permit.on_expiry([] { say("expired " + now()); });
    say((permit ? "granted " : "denied ") + now());
  };
  say("ready");
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    int ms = 0;
    int hold_ms = 0;
    words >> verb >> ms >> hold_ms;
    if (verb == "acquire") {
      take(limiter.acquire(kKey, milliseconds(ms)));
    } else if (verb == "try") {
      take(limiter.try_acquire(kKey));
    } else if (verb == "release") {
      std::this_thread::sleep_for(milliseconds(ms));
      const std::string when = now();
      permit.release();
      say("released " + when);
    } else if (verb == "held") {
      say(permit.held() ? "yes" : "no");
    } else if (verb == "loop") {
      loop(limiter, milliseconds(ms), milliseconds(hold_ms));
    } else {
      return 2;
    }
  }
  return 0;
}
