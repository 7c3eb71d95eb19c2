// Fetches pages from several threads, no faster than their sites allow:
//   crawler STORE_URL LIMIT < addresses
//   crawler redis://127.0.0.1:6379 'token_bucket 2/1s burst=1' < addresses
// The limit applies to each site separately, and to all crawlers that share the store together.
// SIGINT or SIGTERM ends the program; waiting threads then return their reservations.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <future>
#include <iostream>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sluice/sluice.h"

namespace {

using namespace std::chrono_literals;

constexpr int kThreads = 4;

std::string site_of(const std::string& address) {
  const std::size_t scheme = address.find("://");
  const std::size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  return address.substr(begin, address.find('/', begin) - begin);
}

// Stands for an HTTP client.
void fetch(const std::string& address) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::printf("%.6f %s\n", now.count(), address.c_str());
  std::fflush(stdout);
  std::this_thread::sleep_for(20ms);
}

class Crawl {
 public:
  Crawl(sluice::Limiter& limiter, std::vector<std::string> addresses)
      : limiter_(limiter), addresses_(std::move(addresses)) {}

  // Returns the number of fetched pages, once all are fetched or `stop` is requested.
  std::size_t run(const std::stop_token& stop) {
    std::vector<std::future<void>> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.push_back(std::async(std::launch::async, [&] { fetch_some(stop); }));
    }
    for (std::future<void>& thread : threads) thread.get();
    return fetched_;
  }

 private:
  void fetch_some(const std::stop_token& stop) {
    for (std::size_t i = next_++; i < addresses_.size() && !stop.stop_requested(); i = next_++) {
      const std::string& address = addresses_[i];
      // acquire() has waited for the delay of its decision. Denied only after a stop request, or if
      // a leaky_bucket has no place in its queue.
      if (!limiter_.acquire(site_of(address), 1, sluice::kForever, stop).allowed) return;
      fetch(address);
      ++fetched_;
    }
  }

  sluice::Limiter& limiter_;
  const std::vector<std::string> addresses_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::size_t> fetched_ = 0;
};

// Turns SIGINT and SIGTERM into a stop request. Create it before all other threads, so that they
// inherit the signal mask.
class StopOnSignal {
 public:
  StopOnSignal() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    listener_ = std::jthread([this] {
      int signal = 0;
      sigwait(&signals_, &signal);
      source_.request_stop();
    });
  }
  // The thread has the signal blocked, and waits for it.
  // NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread)
  ~StopOnSignal() { pthread_kill(listener_.native_handle(), SIGTERM); }

  std::stop_token token() const { return source_.get_token(); }

 private:
  sigset_t signals_;
  std::stop_source source_;
  std::jthread listener_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: crawler STORE_URL LIMIT < addresses\n");
    return 2;
  }
  try {
    const StopOnSignal stop;
    sluice::Limiter limiter(sluice::open_store(arguments[1]), sluice::Limit(arguments[2], "site"));
    std::vector<std::string> addresses;
    for (std::string line; std::getline(std::cin, line);) addresses.push_back(line);
    const std::size_t all = addresses.size();
    const std::size_t fetched = Crawl(limiter, std::move(addresses)).run(stop.token());
    std::printf("%zu fetched, %zu left\n", fetched, all - fetched);
    return fetched == all || stop.token().stop_requested() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "crawler: %s\n", error.what());
    return 1;
  }
}
