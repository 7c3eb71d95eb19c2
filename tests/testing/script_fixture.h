#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "servers/redis_server.h"
#include "stores/redis/redis_space.h"
#include "stores/redis/redis_store.h"
#include "testing/limited_keys.h"

namespace sluice::redis {

inline constexpr std::int64_t kDayMs = kDayNs / kMillisecondNs;
inline constexpr Instant kNow = 1'700'000'000 * kSecondNs;

inline constexpr const char* kEachAlgorithm[] = {
    "token_bucket 5/1m",  "leaky_bucket 5/1m queue=4",
    "fixed_window 5/1m",  "sliding_counter 5/1m",
    "sliding_log 5/1m",   "sliding_window 5/1m",
    "sliding_log 500/1m", "token_bucket 5/1m & sliding_log 9/1m & fixed_window 9/1h",
};

/// One server for all tests, which is empty at the start of each, and a store on it.
class ScriptTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<servers::RedisServer>(); }
  static void TearDownTestSuite() { server_.reset(); }

  ScriptTest() { ask({"FLUSHALL"}); }

  static std::unique_ptr<RedisStore> open(RedisOptions options = {}) {
    options.servers = {{.unix_path = server_->unix_path()}};
    options.deadline = std::chrono::seconds(10);
    return std::make_unique<RedisStore>(options);
  }
  /// By the script of this store from now on.
  void use(const RedisOptions& options) { store_ = open(options); }
  LimitedKeys keys_of(std::string_view expression, std::string_view name = {}) const {
    return {*store_, expression, name};
  }
  static std::string name_of(const LimitedKeys& keys, std::string_view key = "a") {
    return redis_key(*keys.space(), key);
  }
  static std::size_t head_bytes(const LimitedKeys& keys) {
    return static_cast<const RedisSpace&>(*keys.space()).head_bytes();
  }

  /// Decides the requests in as few calls of the script as possible. `error_` says why one has no
  /// decision; it is empty where each has one.
  std::vector<Decision> decide(std::span<const Request> requests, Instant now = kNow) {
    std::vector<Decision> decisions(requests.size());
    note_error([&] { store_->decide(requests, now, decisions); });
    return decisions;
  }
  Decision decide(const Request& request, Instant now = kNow) {
    return decide({&request, 1}, now)[0];
  }
  Decision decide_all(std::span<const Request> requests) {
    Decision decision;
    note_error([&] { store_->decide_all(requests, kNow, decision); });
    return decision;
  }

  std::string ask(const std::vector<std::string>& words) { return client_.ask(words).printed(); }
  std::string value_of(const LimitedKeys& keys) { return ask({"GET", name_of(keys)}); }
  std::int64_t lifetime_ms(const LimitedKeys& keys, std::string_view key = "a") {
    return std::stoll(ask({"PTTL", name_of(keys, key)}));
  }

  /// Requests for the key "a" with this value fail, while others in their call are answered. The
  /// value stays until a reset.
  void expect_fails_alone(const LimitedKeys& keys, const std::string& value,
                          const std::vector<Request>& of_a, Instant now = kNow) {
    SCOPED_TRACE(testing::Message() << keys.limit().expression << ": " << value.size() << " bytes");
    ask({"SET", name_of(keys), value});
    std::vector<Request> requests{keys.request("b")};
    requests[0].permit = 99;
    requests.insert(requests.end(), of_a.begin(), of_a.end());
    requests.push_back(keys.request("b", 0));
    const auto decisions = decide(requests, now);
    EXPECT_EQ(decisions.front().remaining, decisions.front().limit - 1);
    for (std::size_t i = 1; i <= of_a.size(); ++i) {
      EXPECT_EQ(decisions[i].source, Source::kUnavailable) << i;
    }
    EXPECT_EQ(decisions.back().remaining, decisions.back().limit - 1) << error_;
    EXPECT_EQ(value_of(keys), value);
    expect_reset_removes(keys);
    ask({"FLUSHALL"});
  }

  /// A reset of the key "a" removes its value, whatever it is.
  void expect_reset_removes(const LimitedKeys& keys) {
    const Decision decision = decide(keys.request("a", 1, Operation::kReset));
    EXPECT_EQ(decision.remaining, decision.limit) << error_;
    EXPECT_EQ(ask({"EXISTS", name_of(keys)}), "0");
  }

  static inline std::unique_ptr<servers::RedisServer> server_;
  servers::RespClient client_ = server_->client();
  std::unique_ptr<RedisStore> store_ = open();
  std::string error_;

 private:
  template <class Ask>
  void note_error(const Ask& asks) {
    error_.clear();
    try {
      asks();
    } catch (const StoreError& error) {
      error_ = error.what();
    }
  }
};

}  // namespace sluice::redis
