// A worker for a job queue in Redis. The jobs use a resource that bears 60 of them at once and 200
// starts per second, over all workers:
//   queue_worker HOST PORT QUEUE LEASE_MS
//   redis-cli LPUSH reports 'a1 500'; queue_worker 127.0.0.1 6379 reports 10000
// A job is "ID MILLISECONDS" and runs for that long. A job that the limits deny is put back with a
// delay. No job is lost, and each has one result, even if a worker is killed: see README.md.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "queue.h"
#include "sluice/recipes.h"
#include "sluice/sluice.h"

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr int kThreads = 10;
constexpr milliseconds kIdle = 50ms;
constexpr milliseconds kWaitForPermit = 50ms;

std::atomic<bool> stopping = false;

void tell(const char* what, const ClaimedJob& job) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::printf("%.6f %s %s\n", now.count(), what, job.job.c_str());
  std::fflush(stdout);
}

class Worker {
 public:
  Worker(std::shared_ptr<sluice::Store> store, const QueueOptions& options)
      : store_(std::move(store)), options_(options), queue_(options) {}

  void run() {
    while (!stopping) {
      if (auto job = queue_.claim()) {
        start_if_allowed(*job);
      } else {
        std::this_thread::sleep_for(kIdle);
      }
    }
  }

 private:
  void start_if_allowed(ClaimedJob& job) {
    const auto put_back = [&](const sluice::Decision& decision) {
      tell("back", job);
      // A permit may be released long before its lease ends, so the delay is bounded.
      const auto delay = std::chrono::ceil<milliseconds>(decision.retry_after);
      queue_.postpone(job, std::clamp<milliseconds>(delay, 10ms, 1s));
    };
    sluice::funnel(store_, options_.name)
        .limit(60)
        .release_after(options_.lease)
        .block(kWaitForPermit)
        .then(
            [&](const sluice::Permit& permit) {
              sluice::throttle(store_, options_.name)
                  .allow(200)
                  .every(1s)
                  .then([&] { perform(job, permit); }, put_back);
            },
            put_back);
  }

  void perform(ClaimedJob& job, const sluice::Permit& permit) {
    tell("start", job);
    const std::size_t space = job.job.find(' ');
    const char* duration = space == std::string::npos ? "" : job.job.c_str() + space;
    if (!work(milliseconds(std::strtol(duration, nullptr, 10)), job, permit)) {
      queue_.postpone(job, 0ms);  // Changes nothing if another worker has claimed it.
      tell("lost", job);
      return;
    }
    const bool counts = queue_.finish(job, job.job.substr(0, space));
    tell(counts ? "done" : "lost", job);
  }

  // Stands for the job's work, in steps. Between them it checks whether this worker still has the
  // job and its permit; it has lost them if Redis or this process was suspended for a lease.
  bool work(milliseconds duration, ClaimedJob& job, const sluice::Permit& permit) {
    while (true) {
      const milliseconds step = std::min(duration, options_.lease / 4);
      std::this_thread::sleep_for(step);
      duration -= step;
      if (duration <= 0ms) return true;
      if (!permit.held() || !queue_.renew(job)) return false;
    }
  }

  const std::shared_ptr<sluice::Store> store_;
  const QueueOptions options_;
  Queue queue_;
};

void run_workers(const QueueOptions& options) {
  // If Redis does not answer, no job starts. A worker can wait longer for Redis than a server can.
  const auto store =
      sluice::open_store("redis://" + options.host + ":" + std::to_string(options.port) +
                         "?on_failure=deny&deadline=1s");
  std::vector<std::future<void>> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.push_back(std::async(std::launch::async, [&] {
      try {
        Worker(store, options).run();
      } catch (...) {  // Redis is unreachable: other workers get these jobs when the leases end.
        stopping = true;
        throw;
      }
    }));
  }
  for (std::future<void>& thread : threads) thread.get();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5 || std::atoi(arguments[4]) < 100) {
    std::fprintf(stderr, "usage: queue_worker HOST PORT QUEUE LEASE_MS (at least 100)\n");
    return 2;
  }
  std::signal(SIGTERM, [](int) { stopping = true; });
  std::signal(SIGINT, [](int) { stopping = true; });
  try {
    run_workers({.host = arguments[1],
                 .port = std::atoi(arguments[2]),
                 .name = arguments[3],
                 .lease = milliseconds(std::atoi(arguments[4]))});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "queue_worker: %s\n", error.what());
    return 1;
  }
}
