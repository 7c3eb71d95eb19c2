#include "queue.h"

#include <hiredis/hiredis.h>

#include <stdexcept>

namespace {

// KEYS: ready, later, results. Times are in ms by Redis's clock.
constexpr const char* kClaim = R"(
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)
  for i = #due, 1, -1 do  -- The job that has been due longest comes next.
    redis.call('ZREM', KEYS[2], due[i])
    redis.call('RPUSH', KEYS[1], due[i])
  end
  local job = redis.call('RPOP', KEYS[1])
  local lease_end = string.format('%.0f', now + ARGV[1])
  -- A job that is already claimed was pushed twice: drop it.
  if not job or redis.call('ZADD', KEYS[2], 'NX', lease_end, job) == 0 then return {} end
  return {job, lease_end})";

// ARGV: the job, its lease's end, the delay.
constexpr const char* kPostpone = R"(
  if redis.call('ZSCORE', KEYS[2], ARGV[1]) ~= ARGV[2] then return {} end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local ready = string.format('%.0f', now + ARGV[3])
  redis.call('ZADD', KEYS[2], ready, ARGV[1])
  return {ready})";

// ARGV: the job, its lease's end, the result.
constexpr const char* kFinish = R"(
  if redis.call('ZSCORE', KEYS[2], ARGV[1]) ~= ARGV[2] then return {} end
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('RPUSH', KEYS[3], ARGV[3])
  return {ARGV[1]})";

constexpr timeval kTimeout{.tv_sec = 5, .tv_usec = 0};

}  // namespace

Queue::Queue(const QueueOptions& options)
    : connection_(redisConnectWithTimeout(options.host.c_str(), options.port, kTimeout), redisFree),
      name_(options.name),
      lease_(options.lease) {
  if (connection_ == nullptr) throw std::runtime_error("no memory for a connection to Redis");
  if (connection_->err != 0) throw std::runtime_error(connection_->errstr);
  redisSetTimeout(connection_.get(), kTimeout);
}

std::optional<ClaimedJob> Queue::claim() {
  const std::vector<std::string> found = run(kClaim, {std::to_string(lease_.count())});
  if (found.size() != 2) return std::nullopt;
  return ClaimedJob{.job = found[0], .lease_end = found[1]};
}

bool Queue::postpone(ClaimedJob& job, std::chrono::milliseconds delay) {
  const auto ready = run(kPostpone, {job.job, job.lease_end, std::to_string(delay.count())});
  if (ready.empty()) return false;
  job.lease_end = ready[0];
  return true;
}

bool Queue::finish(const ClaimedJob& job, const std::string& result) {
  return !run(kFinish, {job.job, job.lease_end, result}).empty();
}

std::vector<std::string> Queue::run(const char* script, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"EVAL", script, "3", name_, name_ + ":later", name_ + ":results"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<const char*> texts;
  std::vector<std::size_t> lengths;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    lengths.push_back(word.size());
  }
  const std::shared_ptr<void> owner(
      redisCommandArgv(connection_.get(), static_cast<int>(words.size()), texts.data(),
                       lengths.data()),
      freeReplyObject);
  const auto* reply = static_cast<const redisReply*>(owner.get());
  if (reply == nullptr) throw std::runtime_error(connection_->errstr);
  if (reply->type == REDIS_REPLY_ERROR) throw std::runtime_error(reply->str);
  std::vector<std::string> answer;
  for (std::size_t i = 0; i < reply->elements; ++i) {
    answer.emplace_back(reply->element[i]->str, reply->element[i]->len);
  }
  return answer;
}
