#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "algorithms/limit_definition.h"
#include "servers/redis_server.h"
#include "sluice/limit.h"
#include "stores/redis/redis_store.h"

namespace sluice::redis {

using namespace std::chrono_literals;
using servers::RedisServer;

inline RedisOptions options_for(const RedisServer& server) {
  return {.servers = {{.host = "127.0.0.1", .port = server.port()}}, .deadline = 5s};
}

// One limit on a store of its own.
class Limited {
 public:
  Limited(const RedisOptions& options, const std::string& expression)
      : store_(options),
        limit_(expression, "test"),
        space_(store_.open_space(limit_.definition())) {}

  Request request(std::string_view key, std::int64_t cost = 1) {
    return {.limit = &limit_.definition(), .space = space_.get(), .key = key, .cost = cost};
  }
  Decision check(std::string_view key, std::int64_t cost = 1) {
    const Request asked = request(key, cost);
    Decision decision;
    store_.decide({&asked, 1}, kStoreTime, {&decision, 1});
    return decision;
  }
  RedisStore& store() { return store_; }

 private:
  RedisStore store_;
  Limit limit_;
  std::shared_ptr<Space> space_;
};

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

// Callers that do not wait: `count` inquiries of one request each, all under way at once.
class Crowd {
 public:
  Crowd(Limited& limited, const std::vector<std::string>& keys)
      : left_(static_cast<std::ptrdiff_t>(keys.size())), inquiries_(keys.size()) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      inquiries_[i].set(limited.request(keys[i]), left_);
    }
    for (Asked& asked : inquiries_) {
      if (limited.store().submit_inquiry(asked)) asked.answered();
    }
    left_.wait();
  }

  long admitted() const {
    long sum = 0;
    for (const Asked& asked : inquiries_) sum += asked.decision.allowed ? 1 : 0;
    return sum;
  }
  long unanswered() const {
    long sum = 0;
    for (const Asked& asked : inquiries_) {
      sum += asked.decision.source == Source::kUnanswered ? 1 : 0;
    }
    return sum;
  }

 private:
  struct Asked final : Inquiry {
    void set(const Request& asked, std::latch& all) {
      request = asked;
      requests = {&request, 1};
      decisions = {&decision, 1};
      left = &all;
    }
    void answered() noexcept override { left->count_down(); }

    Request request;
    Decision decision;
    std::latch* left = nullptr;
  };

  std::latch left_;
  std::vector<Asked> inquiries_;
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
