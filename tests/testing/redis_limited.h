#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "algorithms/limit_definition.h"
#include "servers/redis_server.h"
#include "sluice/health.h"
#include "sluice/limit.h"
#include "stores/redis/redis_store.h"

namespace sluice::redis {

// For the tests of stores/redis.

using namespace std::chrono_literals;
using servers::RedisServer;

// Sentinels watch a primary under the name "it".
inline RedisOptions options_for(const RedisServer& server, std::chrono::nanoseconds deadline = 5s,
                                Topology topology = Topology::kSingle) {
  return {.topology = topology,
          .servers = {{.host = "127.0.0.1", .port = server.port()}},
          .primary_name = topology == Topology::kSentinel ? "it" : "",
          .deadline = deadline};
}

// A sentinel that watches the server on that port.
inline servers::RedisOptions sentinel_of(std::uint16_t port, const std::string& password = {}) {
  return {.config = {"sentinel monitor it 127.0.0.1 " + std::to_string(port) + " 1"},
          .password = password,
          .sentinel = true};
}

// What became of a request.
struct Answer {
  Decision decision;
  std::string error;
};

// One limit on a store of its own.
class Limited {
 public:
  Limited(const RedisOptions& options, const std::string& expression)
      : limit_(expression, "test"), store_(options) {
    space_ = store_.open_space(limit_.definition());
  }

  Request request(std::string_view key, std::int64_t cost = 1) {
    return {.limit = &limit_.definition(), .space = space_.get(), .key = key, .cost = cost};
  }
  Decision decide(const Request& asked) { return store_.decide_one(asked); }
  Decision check(std::string_view key, std::int64_t cost = 1) { return decide(request(key, cost)); }
  // Asks without waiting. The store around this one, if any, gets late answers.
  std::future<Answer> submit(std::string_view key, Batch::OuterStore* outer_store = nullptr) {
    const Request asked = request(key);
    auto batch = std::make_unique<Batch>(std::span(&asked, 1));
    batch->outer.store = outer_store;
    auto answer = std::make_shared<std::promise<Answer>>();
    batch->completion = [answer](const Batch& answered) {
      answer->set_value({answered.decisions()[0], answered.error()});
    };
    store_.submit(std::move(batch));
    return answer->get_future();
  }
  RedisStore& store() { return store_; }
  const std::shared_ptr<Space>& space() const { return space_; }

 private:
  const Limit limit_;
  std::shared_ptr<Space> space_;
  RedisStore store_;  // Goes first: what is pending refers to the limit.
};

inline StoreHealth health_of(Limited& limited) {
  StoreHealth health;
  limited.store().add_health(health);
  return health;
}

// How often the server has run a command.
inline long calls(const RedisServer& server, const std::string& command) {
  std::istringstream lines(server.command({"INFO", "commandstats"}));
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t at = line.find("cmdstat_" + command + ":calls=");
    if (at != std::string::npos) return std::stol(line.substr(line.find('=', at) + 1));
  }
  return 0;
}

// Whether a store has a connection to it.
inline bool is_connected(const RedisServer& server) {
  return server.command({"CLIENT", "LIST"}).find("name=sluice") != std::string::npos;
}

// Callers that do not wait: a request for each key, all under way at once.
class Crowd {
 public:
  Crowd(Limited& limited, const std::vector<std::string>& keys) {
    std::vector<std::future<Answer>> pending;
    for (const std::string& key : keys) pending.push_back(limited.submit(key));
    for (auto& one : pending) {
      const Decision decision = one.get().decision;
      admitted_ += decision.allowed ? 1 : 0;
      unanswered_ += decision.source == Source::kUnavailable ? 1 : 0;
    }
  }

  long admitted() const { return admitted_; }
  long unanswered() const { return unanswered_; }

 private:
  long admitted_ = 0;
  long unanswered_ = 0;
};

/// Who answers each request of a batch.
inline std::vector<Source> sources(Limited& limited, const std::vector<Request>& requests) {
  std::vector<Decision> decisions(requests.size());
  try {
    limited.store().decide(requests, kStoreTime, decisions);
  } catch (const StoreError&) {
    // Said by the decisions as well.
  }
  std::vector<Source> sources;
  for (const Decision& decision : decisions) sources.push_back(decision.source);
  return sources;
}

}  // namespace sluice::redis
