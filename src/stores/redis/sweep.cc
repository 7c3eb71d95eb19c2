#include "stores/redis/sweep.h"

#include <cstddef>
#include <cstdint>
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
  Sweep(const std::string& prefix, std::chrono::milliseconds most)
      : pattern_(escape(prefix)), end_at_(RemoteWorker::Clock::now() + most) {}

  std::future<void> end() { return ended_.get_future(); }

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
      if (!is_page || reply->elements[0].text == "0") return;
      if (RemoteWorker::Clock::now() < end_at_) scan(connection, reply->elements[0].text);
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
      ask(connection, std::move(command), [](const Reply*) {});
    }
  }

  void ask(Connection& connection, std::string command, Connection::Answer answer) {
    ++open_;
    connection.add_control(std::move(command),
                           [this, answer = std::move(answer)](const Reply* reply) {
                             answer(reply);
                             close();
                           });
  }

  // A command is answered. After the last one, the thread that waits destroys this.
  void close() {
    if (--open_ == 0) std::promise<void>(std::move(ended_)).set_value();
  }

  const std::string pattern_;
  const RemoteWorker::Clock::time_point end_at_;
  std::promise<void> ended_;
  bool by_slot_ = false;
  std::size_t open_ = 0;  // The commands that are not answered yet.
};

}  // namespace

void sweep(RemoteWorker& worker, RedisRouter& router, const std::string& prefix,
           std::chrono::milliseconds most) {
  Sweep all(prefix, most);
  const std::future<void> end = all.end();
  worker.post([&all, &router] { all.begin(router); });
  end.wait();
}

}  // namespace sluice::redis
