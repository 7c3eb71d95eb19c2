#include "stores/redis/sweep.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "stores/redis/slots.h"

namespace sluice::redis {
namespace {

using Clock = std::chrono::steady_clock;

std::string escape(std::string_view prefix) {
  std::string pattern;
  for (const char c : prefix) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + "*";
}

// Each server's keys are found by SCAN and removed as they are found. Commands are asked by the
// thread that leads the worker, where wait() is not called; their answers, which may come long
// after it has returned, keep the sweep alive.
class Sweep final : public std::enable_shared_from_this<Sweep> {
 public:
  explicit Sweep(const std::string& prefix) : prefix_(prefix), pattern_(escape(prefix)) {}

  void begin(RedisRouter& router) {
    by_slot_ = router.is_cluster();
    if (router.was_connected()) {
      // Also one that is not connected yet: it may have replaced the one that was written to.
      for (Connection* connection : router.fleet().servers()) scan(*connection, "0");
    }
    const std::lock_guard lock(mutex_);
    begun_ = true;
    if (open_ == 0) ended_.notify_all();
  }

  std::string wait(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    const auto over = [this] { return begun_ && open_ == 0; };
    while (!ended_.wait_until(lock, last_answer_ + patience, over)) {
      if (Clock::now() < last_answer_ + patience) continue;
      std::string silent = "the store";
      for (const auto& [server, open] : open_at_) {
        if (open != 0) silent = server;
      }
      fail(silent, silent + " has not answered for " + std::to_string(patience.count()) + " ms");
      is_whole_ = false;
      break;
    }
    if (why_.empty()) return {};
    const std::string left = is_whole_ ? std::to_string(refused_) + " are" : "others may be";
    return "of the keys that begin with '" + prefix_ + "' " + std::to_string(removed_) +
           " were removed, and " + left + " left, to expire after a day: " + why_;
  }

 private:
  using Answer = std::function<void(const Reply* reply)>;

  void scan(Connection& connection, std::string_view cursor) {
    std::string command;
    append_command(command, {"SCAN", cursor, "MATCH", pattern_, "COUNT", "1000"});
    ask(connection, std::move(command), [this, &connection](const Reply* reply) {
      if (reply == nullptr || reply->elements.size() != 2) {
        const std::lock_guard lock(mutex_);
        is_whole_ = false;
        return fail(connection.name(), "the reply to SCAN cannot be read");
      }
      remove(connection, reply->elements[1].elements);
      if (reply->elements[0].text != "0") scan(connection, reply->elements[0].text);
    });
    connection.flush();
  }

  // A page at once; on a cluster, where the keys of a command share their slot, its slots at once.
  void remove(Connection& connection, const std::vector<Reply>& keys) {
    std::map<std::uint16_t, std::vector<std::string_view>> commands;
    for (const Reply& key : keys) {
      auto& words = commands[by_slot_ ? slot_of(key.text) : std::uint16_t{0}];
      if (words.empty()) words.push_back("UNLINK");
      words.push_back(key.text);
    }
    for (const auto& [slot, words] : commands) {
      std::string command;
      append_command(command, words);
      ask(connection, std::move(command), [this, asked = words.size() - 1](const Reply* reply) {
        const std::lock_guard lock(mutex_);
        // Fewer than were asked: SCAN may name a key twice.
        (reply == nullptr ? refused_ : removed_) +=
            reply == nullptr ? asked : static_cast<std::size_t>(reply->integer);
      });
    }
  }

  void ask(Connection& connection, std::string command, Answer answer) {
    {
      const std::lock_guard lock(mutex_);
      ++open_;
      ++open_at_[connection.name()];
    }
    connection.ask(std::move(command),
                   [self = shared_from_this(), &connection, answer = std::move(answer)](
                       const Reply* reply, std::string_view why) {
                     if (reply == nullptr) {
                       const std::lock_guard lock(self->mutex_);
                       self->fail(connection.name(), why);
                     }
                     answer(reply);
                     const std::lock_guard lock(self->mutex_);
                     self->last_answer_ = Clock::now();
                     --self->open_at_[connection.name()];
                     if (--self->open_ == 0) self->ended_.notify_all();
                   });
  }

  // The first reason is said. REQUIRES: mutex_ is held.
  void fail(std::string_view server, std::string_view why) {
    if (!why_.empty()) return;
    // A sentence of the connection names the server, one of the server does not.
    const bool named = why.find(server) != std::string_view::npos;
    why_ = (named ? std::string() : std::string(server) + ": ") + std::string(why);
  }

  const std::string prefix_;
  const std::string pattern_;
  bool by_slot_ = false;

  std::mutex mutex_;
  std::condition_variable ended_;
  // Guarded by mutex_:
  bool begun_ = false;
  std::size_t open_ = 0;                        // Commands without an answer.
  std::map<std::string, std::size_t> open_at_;  // The same, of each server.
  Clock::time_point last_answer_ = Clock::now();
  bool is_whole_ = true;  // All keys were found.
  std::size_t removed_ = 0;
  std::size_t refused_ = 0;
  std::string why_;
};

}  // namespace

std::string sweep(RemoteWorker& worker, RedisRouter& router, const std::string& prefix,
                  std::chrono::milliseconds patience) {
  const auto all = std::make_shared<Sweep>(prefix);
  worker.post([all, &router] { all->begin(router); });
  return all->wait(patience);
}

}  // namespace sluice::redis
