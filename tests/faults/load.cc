#include "faults/load.h"

#include <algorithm>
#include <iterator>

#include "servers/await.h"
#include "sluice/health.h"

namespace sluice::faults {
namespace {

constexpr std::chrono::microseconds kPause{200};
constexpr std::size_t kMostStrays = 5;
// One call in this many is for a shared key.
constexpr unsigned kSharedEvery = 4;

struct SharedLimit {
  const char* expression;
  const char* name;
  std::int64_t limit;
};

// No unit returns within a test.
constexpr std::array<SharedLimit, Load::kLimits> kShared{{
    {"fixed_window 40/100d", "window", 40},
    {"token_bucket 60/20d", "bucket", 60},
    {"sliding_window 100/10d", "sliding", 100},
    {"fixed_window 90/1d anchor=first & token_bucket 80/20d", "both", 80},
}};

constexpr std::int64_t kOwnLimit = 1'000'000'000'000'007;
constexpr std::array<std::int64_t, Load::kCallers * Load::kOwnKeys> kPrimes{
    101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179};

std::string shared_key(std::size_t i) {
  return "shared-" + std::to_string(i);
}

std::string own_key(std::size_t caller, std::size_t i) {
  return "own-" + std::to_string(caller) + "-" + std::to_string(i);
}

}  // namespace

void await_store(Limiter& limiter, const std::string& key) {
  servers::await("an answer of the store", [&] {
    try {
      return limiter.peek(key).source == Source::kStore;
    } catch (const StoreError&) {
      return false;
    }
  });
}

Load::Load(const std::string& url) : store_(open_store(url)) {
  for (const SharedLimit& shared : kShared) {
    limiters_.emplace_back(store_, Limit(shared.expression, shared.name));
  }
  own_limiter_ = std::make_unique<Limiter>(
      store_, Limit("fixed_window " + std::to_string(kOwnLimit) + "/100d", "own"));
  await_store(*own_limiter_, "first");
  for (std::size_t i = 0; i < kCallers; ++i) {
    Caller& caller = callers_[i];
    caller.number = i;
    caller.random.seed(static_cast<unsigned>(i + 1));
    for (std::size_t k = 0; k < kOwnKeys; ++k) {
      caller.own[k].name = own_key(i, k);
      caller.own[k].cost = kPrimes[i * kOwnKeys + k] * kOwnUnit;
    }
    caller.thread = std::thread([this, &caller] {
      while (!stopping_.load(std::memory_order_relaxed)) {
        if (caller.random() % kSharedEvery == 0) {
          call_shared(caller);
        } else {
          call_own(caller);
        }
        std::this_thread::sleep_for(kPause);
      }
    });
  }
}

Load::~Load() {
  stop();
}

void Load::call_shared(Caller& caller) {
  const std::size_t which = caller.random() % kLimits;
  // The first keys are used most.
  const std::size_t key = std::min(caller.random() % kSharedKeys, caller.random() % kSharedKeys);
  const Decision decision = ask(caller, limiters_[which], shared_key(key), 1);
  const std::int64_t limit = kShared[which].limit;
  if (decision.limit != limit || decision.remaining < 0 || decision.remaining >= limit) {
    stray(caller, kShared[which].expression, decision);
  }
  Count& count = counts_[which][key];
  const bool by_store = decision.source == Source::kStore || decision.source == Source::kCache;
  if (!by_store || decision.remaining == limit - 1) count.begun.fetch_add(1);
  if (!decision.allowed) return;
  (decision.source == Source::kStore ? count.by_store : count.otherwise).fetch_add(1);
}

void Load::call_own(Caller& caller) {
  OwnKey& key = caller.own[caller.random() % kOwnKeys];
  const int losses = losses_.load();
  key.in_doubt += key.cost;
  const Decision decision = ask(caller, *own_limiter_, key.name, key.cost);
  check_own(caller, key, decision, losses);
}

Decision Load::ask(Caller& caller, Limiter& limiter, const std::string& key, std::int64_t cost) {
  const Clock::time_point asked = Clock::now();
  const Decision decision = limiter.check(key, cost);
  caller.samples.push_back(
      {.asked = asked, .took = Clock::now() - asked, .source = decision.source});
  return decision;
}

void Load::check_own(Caller& caller, OwnKey& key, const Decision& decision, int losses) {
  const bool right_limit = decision.limit == kOwnLimit && decision.remaining >= 0;
  if (decision.source != Source::kStore) {
    if (!right_limit) stray(caller, key.name, decision);
    return;
  }
  const std::int64_t used = decision.limit - decision.remaining;
  // The loss may have begun during this request.
  const bool may_be_lost = losses != key.losses || losses % 2 != 0 || losses != losses_.load();
  const std::int64_t least = may_be_lost ? key.cost : key.used + key.cost;
  const std::int64_t most = key.used + key.in_doubt;
  if (!right_limit || !decision.allowed || used < least || used > most || used % key.cost != 0) {
    stray(caller,
          key.name + ", which takes " + std::to_string(key.cost) + " and should have used " +
              std::to_string(least) + " to " + std::to_string(most),
          decision);
  }
  // Units in doubt may still reach the server and be charged later.
  key.in_doubt = std::max<std::int64_t>(most - used, 0);
  key.used = used;
  key.losses = losses;
}

void Load::stray(Caller& caller, const std::string& what, const Decision& decision) {
  if (caller.strays.size() >= kMostStrays) return;
  caller.strays.push_back(what + ": allowed " + std::to_string(decision.allowed) + ", limit " +
                          std::to_string(decision.limit) + ", remaining " +
                          std::to_string(decision.remaining) + ", source " +
                          std::to_string(static_cast<int>(decision.source)));
}

Report Load::stop() {
  stopping_.store(true);
  Report report;
  for (Caller& caller : callers_) {
    if (caller.thread.joinable()) caller.thread.join();
    std::move(caller.samples.begin(), caller.samples.end(), std::back_inserter(report.samples));
    std::move(caller.strays.begin(), caller.strays.end(), std::back_inserter(report.strays));
    caller.samples.clear();
    caller.strays.clear();
  }
  std::ranges::sort(report.samples, {}, &Sample::asked);
  report.not_charged_back = static_cast<std::int64_t>(health(*store_).not_charged_back) % kOwnUnit;
  for (std::size_t which = 0; which < kLimits; ++which) {
    for (std::size_t key = 0; key < kSharedKeys; ++key) {
      const Count& count = counts_[which][key];
      report.admitted.push_back({.key = std::string(kShared[which].name) + " " + shared_key(key),
                                 .limit = kShared[which].limit,
                                 .by_store = count.by_store.load(),
                                 .otherwise = count.otherwise.load(),
                                 .begun = count.begun.load()});
    }
  }
  return report;
}

std::vector<std::string> Load::keys() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kSharedKeys; ++i) names.push_back(shared_key(i));
  for (std::size_t caller = 0; caller < kCallers; ++caller) {
    for (std::size_t i = 0; i < kOwnKeys; ++i) names.push_back(own_key(caller, i));
  }
  return names;
}

}  // namespace sluice::faults
