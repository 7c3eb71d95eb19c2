// recipe_caller URL: runs callers on the store, each on a separate thread. Lines of the input start
// and stop them:
//
//     acquire CALLER COST PATIENCE_MS LIMIT
//     funnel CALLER RUNS LEASE_MS PATIENCE_MS         its work goes on until it is stopped
//     throttle CALLER RUNS WINDOW_MS PATIENCE_MS
//     stop CALLER                                     cancels its wait in acquire, or ends its work
//
// It prints events, with the time of the monotonic clock, which all processes share:
//
//     CALLER runs NS
//     CALLER done NS                                  a stopped funnel's work
//     CALLER refused NS RETRY_AFTER_NS REMAINING
//
// At the end of the input it stops all callers.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "sluice/sluice.h"

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

std::mutex output;

void say(const std::string& caller, const std::string& what, const std::string& more = "") {
  const std::lock_guard lock(output);
  const nanoseconds now = steady_clock::now().time_since_epoch();
  std::cout << caller << ' ' << what << ' ' << now.count() << more << std::endl;
}

void say_refused(const std::string& caller, const sluice::Decision& decision) {
  say(caller, "refused",
      " " + std::to_string(decision.retry_after.count()) + " " +
          std::to_string(decision.remaining));
}

void work_until(const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait(lock, stop, [] { return false; });
}

/// One caller, and the rest of its line: numbers and a limit.
struct Caller {
  std::shared_ptr<sluice::Store> store;
  std::string name;
  std::istringstream rest;

  std::int64_t number() {
    std::int64_t number = 0;
    rest >> number;
    return number;
  }

  void acquire(const std::stop_token& stop) {
    const std::int64_t cost = number();
    const milliseconds patience(number());
    std::string limit;
    std::getline(rest >> std::ws, limit);
    sluice::Limiter limiter(store, sluice::Limit(limit, "recipe"));
    const sluice::Decision decision = limiter.acquire("all", cost, patience, stop);
    if (decision.allowed) {
      say(name, "runs");
    } else {
      say_refused(name, decision);
    }
  }

  void funnel(const std::stop_token& stop) {
    const std::int64_t runs = number();
    const milliseconds lease(number());
    const milliseconds patience(number());
    const auto work = [&] {
      say(name, "runs");
      work_until(stop);
      say(name, "done");
    };
    const auto refuse = [&](const sluice::Decision& decision) { say_refused(name, decision); };
    sluice::Funnel jobs = sluice::funnel(store, "jobs");
    jobs.limit(runs).release_after(lease).block(patience).then(work, refuse);
  }

  void throttle(const std::stop_token&) {
    const std::int64_t runs = number();
    const milliseconds window(number());
    const milliseconds patience(number());
    const auto work = [&] { say(name, "runs"); };
    const auto refuse = [&](const sluice::Decision& decision) { say_refused(name, decision); };
    sluice::throttle(store, "sms").allow(runs).every(window).block(patience).then(work, refuse);
  }
};

using Verb = void (Caller::*)(const std::stop_token&);

const std::map<std::string, Verb> kVerbs = {
    {"acquire", &Caller::acquire}, {"funnel", &Caller::funnel}, {"throttle", &Caller::throttle}};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::shared_ptr<sluice::Store> store = sluice::open_store(argv[1]);
  std::map<std::string, std::jthread> callers;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    std::string name;
    words >> verb >> name;
    if (verb == "stop") {
      callers.at(name).request_stop();
      continue;
    }
    callers[name] =
        std::jthread([run = kVerbs.at(verb), caller = Caller{store, name, std::move(words)}](
                         const std::stop_token& stop) mutable { (caller.*run)(stop); });
  }
  for (auto& [name, thread] : callers) thread.request_stop();
  return 0;
}
