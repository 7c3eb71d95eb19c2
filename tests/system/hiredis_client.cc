// Runs hiredis against a server: hiredis_client PORT
// Blocking: CL.THROTTLE sixteen times, then the seventeenth. Pipelined: a thousand appended
// commands, answered in order. Exits with 1 and says where an answer differs.
#include <hiredis/hiredis.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;
using Context = std::unique_ptr<redisContext, FreeContext>;
using Throttled = std::array<long long, 5>;

constexpr int kPipelined = 1000;

void expect(bool holds, const std::string& sentence) {
  if (!holds) throw std::runtime_error(sentence);
}

Throttled throttled(const redisReply* reply, const std::string& where) {
  expect(reply != nullptr, where + ": the connection failed");
  expect(reply->type == REDIS_REPLY_ARRAY && reply->elements == 5,
         where + ": not an array of five, but type " + std::to_string(reply->type));
  Throttled numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    expect(reply->element[i]->type == REDIS_REPLY_INTEGER, where + ": not an integer");
    numbers[i] = reply->element[i]->integer;
  }
  return numbers;
}

void blocking(redisContext* context) {
  for (int taken = 1; taken <= 17; ++taken) {
    const std::string where = "blocking request " + std::to_string(taken);
    const Reply reply(
        static_cast<redisReply*>(redisCommand(context, "CL.THROTTLE hiredis 15 30 60")));
    const Throttled got = throttled(reply.get(), where);
    expect(got[0] == (taken == 17 ? 1 : 0), where + ": limited is " + std::to_string(got[0]));
    expect(got[1] == 16, where + ": limit is " + std::to_string(got[1]));
    expect(got[2] == (taken == 17 ? 0 : 16 - taken),
           where + ": remaining is " + std::to_string(got[2]));
    expect(taken == 17 ? got[3] >= 1 && got[3] <= 2 : got[3] == -1,
           where + ": retry_after is " + std::to_string(got[3]));
  }
}

void pipelined(redisContext* context) {
  for (int i = 0; i < kPipelined; ++i) {
    expect(redisAppendCommand(context, "CL.THROTTLE hiredis-many %d 1 3600", kPipelined - 1) ==
               REDIS_OK,
           "redisAppendCommand failed");
  }
  for (int i = 0; i < kPipelined; ++i) {
    const std::string where = "pipelined reply " + std::to_string(i);
    void* raw = nullptr;
    expect(redisGetReply(context, &raw) == REDIS_OK, where + ": " + context->errstr);
    const Reply reply(static_cast<redisReply*>(raw));
    const Throttled got = throttled(reply.get(), where);
    expect(got[0] == 0 && got[2] == kPipelined - 1 - i,
           where + ": limited " + std::to_string(got[0]) + " remaining " + std::to_string(got[2]));
  }
}

void an_error_leaves_the_connection(redisContext* context) {
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
    blocking(context.get());
    pipelined(context.get());
    an_error_leaves_the_connection(context.get());
    std::puts("hiredis: ok");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
