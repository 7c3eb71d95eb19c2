// Runs hiredis against a server: hiredis_client PORT
// Blocking: CL.THROTTLE sixteen times, then the seventeenth. Pipelined: a thousand appended
// commands, answered in order. Exits with 1 and says where an answer differs.
#include <hiredis/hiredis.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;
using Context = std::unique_ptr<redisContext, FreeContext>;

constexpr int kPipelined = 1000;

void expect(bool holds, const std::string& sentence) {
  if (!holds) throw std::runtime_error(sentence);
}

// Takes a reply that must be five integers: limited, limit and remaining, and what may change with
// time. Returns the fourth, retry_after.
long long expect_throttled(void* raw, const std::vector<long long>& first, int number) {
  const std::string where = "reply " + std::to_string(number);
  const Reply reply(static_cast<redisReply*>(raw));
  expect(reply != nullptr, where + ": the connection failed");
  expect(reply->type == REDIS_REPLY_ARRAY && reply->elements == 5, where + ": not an array of 5");
  for (std::size_t i = 0; i < reply->elements; ++i) {
    const redisReply& element = *reply->element[i];
    expect(element.type == REDIS_REPLY_INTEGER, where + ": not an integer");
    expect(i >= first.size() || element.integer == first[i],
           where + ": element " + std::to_string(i) + " is " + std::to_string(element.integer));
  }
  return reply->element[3]->integer;
}

void run(redisContext* context) {
  for (int taken = 1; taken <= 16; ++taken) {
    void* reply = redisCommand(context, "CL.THROTTLE hiredis 15 1 3600");
    expect(expect_throttled(reply, {0, 16, 16 - taken}, taken) == -1, "a retry_after of allowed");
  }
  void* last = redisCommand(context, "CL.THROTTLE hiredis 15 1 3600");
  const long long retry_after = expect_throttled(last, {1, 16, 0}, 17);
  expect(retry_after > 3500 && retry_after <= 3600,
         "retry_after is " + std::to_string(retry_after));

  for (int i = 0; i < kPipelined; ++i) {
    expect(redisAppendCommand(context, "CL.THROTTLE hiredis-many %d 1 3600", kPipelined - 1) ==
               REDIS_OK,
           "redisAppendCommand failed");
  }
  for (int i = 0; i < kPipelined; ++i) {
    void* reply = nullptr;
    expect(redisGetReply(context, &reply) == REDIS_OK, context->errstr);
    expect_throttled(reply, {0, kPipelined, kPipelined - 1 - i}, i);
  }

  // An error leaves the connection open.
  const Reply error(static_cast<redisReply*>(redisCommand(context, "CL.THROTTLE key")));
  expect(error && error->type == REDIS_REPLY_ERROR, "too few arguments are not an error");
  const Reply pong(static_cast<redisReply*>(redisCommand(context, "PING")));
  expect(pong && pong->type == REDIS_REPLY_STATUS, "no answer to PING after an error");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    expect(argc == 2, "usage: hiredis_client PORT");
    const Context context(redisConnect("127.0.0.1", std::atoi(argv[1])));
    expect(context && context->err == 0, "cannot connect");
    run(context.get());
    std::puts("hiredis: ok");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
