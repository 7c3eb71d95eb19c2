#include "redis/hiredis_callers.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <poll.h>

#include <array>
#include <charconv>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace sluice::bench {
namespace {

/// The timeout after which a silent server counts as failed.
constexpr int kTimeoutMs = 10'000;

std::int64_t wall_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct HiredisCallers::Caller {
  HiredisCallers& all;
  std::uint64_t left = 0;
};

HiredisCallers::HiredisCallers(GcraScript script, const KeyTape& tape, std::size_t callers)
    : script_(std::move(script)),
      keys_(tape),
      connection_(redisAsyncConnect("127.0.0.1", script_.port)) {
  if (connection_ == nullptr || connection_->err != 0) {
    throw std::runtime_error("hiredis cannot connect to the server");
  }
  connection_->ev.data = &watch_;
  connection_->ev.addRead = [](void* watch) { static_cast<Watch*>(watch)->read = true; };
  connection_->ev.delRead = [](void* watch) { static_cast<Watch*>(watch)->read = false; };
  connection_->ev.addWrite = [](void* watch) { static_cast<Watch*>(watch)->write = true; };
  connection_->ev.delWrite = [](void* watch) { static_cast<Watch*>(watch)->write = false; };
  connection_->ev.cleanup = [](void* watch) { *static_cast<Watch*>(watch) = {}; };
  connection_->data = this;
  const auto on_end = [](const redisAsyncContext* connection, int) {
    auto* all = static_cast<HiredisCallers*>(connection->data);
    all->connection_ = nullptr;  // hiredis frees it.
    all->fail("hiredis has lost the server");
  };
  redisAsyncSetDisconnectCallback(connection_, on_end);
  const auto on_select = [](redisAsyncContext* connection, void* answer, void*) {
    const auto* reply = static_cast<const redisReply*>(answer);
    const bool selected = reply != nullptr && reply->type == REDIS_REPLY_STATUS;
    if (!selected) static_cast<HiredisCallers*>(connection->data)->fail("there is no database");
  };
  redisAsyncCommand(connection_, on_select, nullptr, "SELECT %d", script_.database);
  for (std::size_t i = 0; i < callers; ++i) {
    callers_.push_back(std::make_unique<Caller>(Caller{*this}));
  }
}

HiredisCallers::~HiredisCallers() {
  if (connection_ != nullptr) redisAsyncFree(connection_);
}

void HiredisCallers::fail(std::string sentence) {
  if (error_.empty()) error_ = std::move(sentence);
}

void HiredisCallers::ask(Caller& caller) {
  const std::string_view key = keys_.next();
  char now[20];
  const char* now_end = now;
  if (script_.caller_clock) now_end = std::to_chars(now, now + sizeof now, wall_us()).ptr;
  std::array<const char*, 8> words{
      "EVALSHA", script_.sha.c_str(), "1", key.data(), "1000", "1", "3600", now};
  const std::array<std::size_t, 8> bytes{
      7, script_.sha.size(), 1, key.size(), 4, 1, 4, static_cast<std::size_t>(now_end - now)};
  const int sent = redisAsyncCommandArgv(
      connection_,
      [](redisAsyncContext*, void* reply, void* data) {
        auto* asker = static_cast<Caller*>(data);
        asker->all.answered(*asker, static_cast<const redisReply*>(reply));
      },
      &caller, script_.caller_clock ? 8 : 7, words.data(), bytes.data());
  if (sent != REDIS_OK) fail("hiredis takes no more commands");
}

void HiredisCallers::answered(Caller& caller, const redisReply* reply) {
  const bool admitted = reply != nullptr && reply->type == REDIS_REPLY_ARRAY &&
                        reply->elements == 5 && reply->element[0]->integer == 0;
  if (!admitted) {
    const bool refused = reply != nullptr && reply->type == REDIS_REPLY_ERROR;
    fail(refused ? std::string(reply->str, static_cast<std::size_t>(reply->len))
                 : "the script did not admit a request");
  } else if (--caller.left > 0) {
    ask(caller);
  } else {
    --busy_;
  }
}

/// Writes directly after reading, which saves a call of poll compared with most event loops.
void HiredisCallers::serve_socket() {
  pollfd socket{.fd = connection_->c.fd, .events = 0, .revents = 0};
  if (watch_.read) socket.events |= POLLIN;
  if (watch_.write) socket.events |= POLLOUT;
  if (::poll(&socket, 1, kTimeoutMs) == 0) return fail("no reply for 10 seconds");
  if ((socket.revents & (POLLIN | POLLHUP | POLLERR)) != 0) redisAsyncHandleRead(connection_);
  if (connection_ != nullptr && watch_.write) redisAsyncHandleWrite(connection_);
}

void HiredisCallers::run(std::uint64_t decisions_per_caller) {
  busy_ = callers_.size();
  for (const auto& caller : callers_) {
    caller->left = decisions_per_caller;
    if (error_.empty()) ask(*caller);
  }
  while (busy_ > 0 && error_.empty()) serve_socket();
  if (!error_.empty()) throw std::runtime_error(error_);
}

}  // namespace sluice::bench
