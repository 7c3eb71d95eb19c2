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
  // How long a claim lasts unless it is renewed. The job of a dead worker goes to another worker
  // after that.
  std::chrono::milliseconds lease;
};

// A job that a worker has claimed.
struct ClaimedJob {
  std::string job;
  std::string lease_end;  // In ms by Redis's clock; also identifies this claim.
};

// A queue of jobs in Redis (5 or later), filled by LPUSH NAME JOB. At any moment a job is in one of
// these places, and moves to the next in one step of Redis, so that none can be lost:
//
//     NAME           a list: the jobs that are ready
//     NAME:later     a sorted set: the jobs that are claimed or put back with a delay, each with
//                    the instant from which it is ready again
//     NAME:results   a list: the results of finished jobs
//
// Jobs are identified by their text, so each must contain an id.
//
// Uses one connection. Not thread-safe. Throws std::runtime_error if Redis does not answer.
class Queue {
 public:
  explicit Queue(const QueueOptions& options);

  // Claims the next job for a lease; nothing if no job is ready.
  std::optional<ClaimedJob> claim();

  // Makes the job ready again after `delay`; until then it belongs to this worker, if it goes on
  // with it. Returns false and changes nothing if the claim has ended.
  bool postpone(ClaimedJob& job, std::chrono::milliseconds delay);
  // Extends the claim by another lease.
  bool renew(ClaimedJob& job) { return postpone(job, lease_); }

  // Removes the job from the queue and records its result, in one step. Returns false and changes
  // nothing if the claim has ended: another worker will give the result.
  bool finish(const ClaimedJob& job, const std::string& result);

 private:
  std::vector<std::string> run(const char* script, const std::vector<std::string>& arguments);

  std::shared_ptr<redisContext> connection_;
  std::string name_;
  std::chrono::milliseconds lease_;
};
