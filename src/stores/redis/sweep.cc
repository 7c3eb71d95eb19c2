#include "stores/redis/sweep.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "stores/redis/redis_space.h"
#include "stores/redis/resp.h"

namespace sluice::redis {
namespace {

std::string escape(std::string_view prefix) {
  std::string pattern;
  for (const char c : prefix) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + "*";
}

// Each server's keys are found by SCAN and removed as they are found. No command needs a timer: if
// a server does not answer, its connection is given up, and its commands fail. Belongs to the
// thread that leads the worker.
class Sweep final {
 public:
  using Answer = std::function<void(const Reply* reply)>;

  Sweep(const std::string& prefix, std::chrono::milliseconds most)
      : prefix_(prefix), pattern_(escape(prefix)), most_(most) {}

  // Which keys may be left; available when the sweep has ended.
  std::future<std::string> result() { return result_.get_future(); }

  void begin(RedisRouter& router) {
    by_slot_ = router.is_cluster();
    ++open_;  // It must not end before every server has been asked.
    if (router.was_connected()) {
      // Also one that is not connected yet: it may have replaced the one that was written to.
      for (Connection* connection : router.servers()) scan(*connection, "0");
    }
    close();
  }

 private:
  void scan(Connection& connection, std::string_view cursor) {
    std::string command = command_of({"SCAN", cursor, "MATCH", pattern_, "COUNT", "1000"});
    ask(connection, std::move(command), [this, &connection](const Reply* reply) {
      const bool is_page = reply != nullptr && reply->elements.size() == 2;
      if (is_page) remove(connection, reply->elements[1].elements);
      if (is_page && reply->elements[0].text == "0") return;
      if (is_page && RemoteWorker::Clock::now() < end_at_) {
        return scan(connection, reply->elements[0].text);
      }
      is_whole_ = false;
      if (!is_page) return fail(connection, "the reply to SCAN cannot be read");
      fail(connection, "not all keys were named within " + std::to_string(most_.count()) + " ms");
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
        // Fewer than were asked: SCAN may name a key twice.
        if (reply != nullptr) removed_ += static_cast<std::size_t>(reply->integer);
        if (reply == nullptr) refused_ += asked;
      });
    }
  }

  void ask(Connection& connection, std::string command, Answer answer) {
    ++open_;
    connection.add_control(std::move(command), [this, &connection, answer = std::move(answer)](
                                                   const Reply* reply, std::string_view why) {
      const bool is_done = reply != nullptr && !reply->is_error();
      if (!is_done) fail(connection, why);
      answer(is_done ? reply : nullptr);
      close();
    });
  }

  // Keeps the first reason.
  void fail(const Connection& connection, std::string_view why) {
    if (!why_.empty()) return;
    // A connection that was given up says which server it is to, the server's own words do not.
    const bool is_named = why.find(connection.name()) != std::string_view::npos;
    why_ = (is_named ? std::string() : connection.name() + ": ") + std::string(why);
  }

  // A command is answered. With the result of the last one, the thread that waits destroys this.
  void close() {
    if (--open_ != 0) return;
    std::promise<std::string> result = std::move(result_);
    if (why_.empty()) return result.set_value({});
    const std::string left = is_whole_ ? std::to_string(refused_) + " are" : "others may be";
    result.set_value("of the keys that begin with '" + prefix_ + "' " + std::to_string(removed_) +
                     " were removed, and " + left + " left, to expire after a day: " + why_);
  }

  const std::string prefix_;
  const std::string pattern_;
  const std::chrono::milliseconds most_;
  const RemoteWorker::Clock::time_point end_at_ = RemoteWorker::Clock::now() + most_;
  std::promise<std::string> result_;
  bool by_slot_ = false;
  std::size_t open_ = 0;  // The commands that are not answered yet.
  bool is_whole_ = true;  // All keys were found.
  std::size_t removed_ = 0;
  std::size_t refused_ = 0;
  std::string why_;
};

}  // namespace

std::string sweep(RemoteWorker& worker, RedisRouter& router, const std::string& prefix,
                  std::chrono::milliseconds most) {
  Sweep all(prefix, most);
  std::future<std::string> result = all.result();
  worker.post([&all, &router] { all.begin(router); });
  return result.get();
}

}  // namespace sluice::redis
