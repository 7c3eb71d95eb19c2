#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/limit_definition.h"
#include "servers/redis_server.h"
#include "sluice/limit.h"
#include "stores/redis/redis_space.h"
#include "stores/redis/resp.h"
#include "stores/redis/script_call.h"
#include "testing/script_requests.h"

namespace sluice::redis {

inline const RedisOptions kVirtualTime{.servers = {}, .virtual_time = true};
inline constexpr std::int64_t kDayMs = kDayNs / kMillisecondNs;

/// A redis-server that holds the script, asked by ScriptCalls alone.
class ScriptServer {
 public:
  ScriptServer() : client_(server_.client()) {
    client_.ask({"SCRIPT", "LOAD", std::string(script_text())});
  }

  /// Runs a call, and adds its errors to `errors`. Throws std::runtime_error where the reply is an
  /// error, or is not that of the script.
  void run(ScriptRequests& call) { run(call, call.command()); }
  void run(ScriptRequests& call, const std::string& command) {
    client_.send(command);
    const auto reply = client_.read();
    if (reply.is_error()) throw std::runtime_error(reply.text);
    std::string bytes;
    append_text(bytes, reply.text);
    if (!call.read(bytes)) throw std::runtime_error("the reply to the script cannot be read");
    errors.insert(errors.end(), call.errors().begin(), call.errors().end());
  }

  /// Decides the requests independently, in as few calls as possible. The errors are in `errors`,
  /// empty for requests without one.
  std::vector<Decision> decide(std::span<const Request> requests, Instant now) {
    std::optional<ScriptRequests> call(std::in_place, options, now);
    std::vector<Decision> decisions(requests.size());
    errors.clear();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (call->add(requests.subspan(i, 1), decisions[i])) continue;
      run(*call);
      call.emplace(options, now);
      call->add(requests.subspan(i, 1), decisions[i]);
    }
    run(*call);
    return decisions;
  }
  Decision decide(const Request& request, Instant now) { return decide({&request, 1}, now)[0]; }

  Decision decide_all(std::span<const Request> requests, Instant now) {
    ScriptRequests call(options, now);
    Decision decision;
    errors.clear();
    call.add(requests, decision);
    run(call);
    return decision;
  }

  std::string ask(const std::vector<std::string>& words) { return client_.ask(words).printed(); }

  RedisOptions options;
  std::vector<std::string> errors;

 private:
  servers::RedisServer server_;
  servers::RespClient client_;
};

/// The keys of one limit on Redis.
class RedisKeys {
 public:
  explicit RedisKeys(std::string_view expression, std::string_view name = {})
      : limit_(expression, name),
        space_(std::make_shared<RedisSpace>("sluice", limit_.definition())) {}

  Request request(std::string_view key, std::int64_t cost = 1,
                  Operation operation = Operation::kTake) const {
    return {.limit = &limit_.definition(),
            .space = space_.get(),
            .key = key,
            .operation = operation,
            .cost = cost};
  }
  std::string name(std::string_view key) const { return redis_key(*space_, key); }
  const LimitDefinition& limit() const { return limit_.definition(); }
  RedisSpace& space() const { return *space_; }

 private:
  Limit limit_;
  std::shared_ptr<RedisSpace> space_;
};

inline constexpr Instant kNow = 1'700'000'000 * kSecondNs;

inline constexpr const char* kEachAlgorithm[] = {
    "token_bucket 5/1m",  "leaky_bucket 5/1m queue=4",
    "fixed_window 5/1m",  "sliding_counter 5/1m",
    "sliding_log 5/1m",   "sliding_window 5/1m",
    "sliding_log 500/1m", "token_bucket 5/1m & sliding_log 9/1m & fixed_window 9/1h",
};

/// One server for all tests, which is empty at the start of each.
class ScriptTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<ScriptServer>(); }
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override {
    server_->options = {};
    server_->ask({"FLUSHALL"});
  }

  std::int64_t lifetime_ms(const std::string& key) {
    return std::stoll(server_->ask({"PTTL", key}));
  }

  /// Requests for the key "a" with this value fail, while others in their call are answered. The
  /// value stays until a reset.
  void expect_fails_alone(const RedisKeys& keys, const std::string& value,
                          const std::vector<Request>& of_a, Instant now = kNow) {
    SCOPED_TRACE(testing::Message() << keys.limit().expression << ": " << value.size() << " bytes");
    server_->ask({"SET", keys.name("a"), value});
    std::vector<Request> requests{keys.request("b")};
    requests[0].permit = 99;
    requests.insert(requests.end(), of_a.begin(), of_a.end());
    requests.push_back(keys.request("b", 0));
    const auto decisions = server_->decide(requests, now);
    EXPECT_EQ(decisions.front().remaining, decisions.front().limit - 1);
    for (std::size_t i = 1; i <= of_a.size(); ++i) {
      EXPECT_EQ(decisions[i].source, Source::kUnavailable) << i;
      EXPECT_NE(server_->errors[i], "") << i;
    }
    EXPECT_EQ(decisions.back().remaining, decisions.back().limit - 1) << server_->errors.back();
    EXPECT_EQ(server_->ask({"GET", keys.name("a")}), value);
    expect_reset_removes(keys);
    server_->ask({"FLUSHALL"});
  }

  /// A reset of the key "a" removes its value, whatever it is.
  void expect_reset_removes(const RedisKeys& keys) {
    const Decision decision = server_->decide(keys.request("a", 1, Operation::kReset), kNow);
    EXPECT_EQ(decision.remaining, decision.limit);
    EXPECT_EQ(server_->errors[0], "");
    EXPECT_EQ(server_->ask({"EXISTS", keys.name("a")}), "0");
  }

  static inline std::unique_ptr<ScriptServer> server_;
};

}  // namespace sluice::redis
