#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

struct redisContext;

struct QueueOptions {
  std::string host;
  int port = 6379;
  std::string name;
  // How long a worker has a job to itself. It may ask for more time; one that has died does not,
  // and the job goes to another.
  std::chrono::milliseconds lease;
};

// A job as its worker holds it.
struct ClaimedJob {
  std::string job;
  std::string lease_end;  // In ms by Redis's clock; also tells this claim from all others.
};

// A queue of jobs in Redis (5 or later), filled by LPUSH NAME JOB. A job is in one place at any
// moment, and goes from one to the next in one step of Redis, so that none can be lost:
//
//     NAME           a list: the jobs that are ready
//     NAME:later     a sorted set: those that are claimed, and those put back with a delay, each
//                    with the instant from which it is ready again
//     NAME:results   a list: what came of those that are done
//
// Jobs are told apart by their text, so each has an id in it.
//
// One connection; one thread at a time. Throws std::runtime_error where Redis does not answer.
class Queue {
 public:
  explicit Queue(const QueueOptions& options);

  // The next job, claimed for a lease; none if none is ready.
  std::optional<ClaimedJob> claim();

  // The job is ready again after `delay`, for this worker, who goes on with it, or for others if
  // it does not. False, and nothing changes, where the claim had ended.
  bool postpone(ClaimedJob& job, std::chrono::milliseconds delay);
  // Another lease for who still works on it.
  bool renew(ClaimedJob& job) { return postpone(job, lease_); }

  // Takes the job out of the queue and adds its result to the others, in one step. False, and
  // nothing changes, where the claim had ended: its result is another worker's to give.
  bool finish(const ClaimedJob& job, const std::string& result);

 private:
  std::vector<std::string> run(const char* script, const std::vector<std::string>& arguments);

  std::shared_ptr<redisContext> connection_;
  std::string name_;
  std::chrono::milliseconds lease_;
};
