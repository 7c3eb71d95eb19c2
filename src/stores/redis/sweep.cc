#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "stores/redis/redis_router.h"
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
// thread that leads the worker. Each command under way holds a share of it.
class Sweep final : public std::enable_shared_from_this<Sweep> {
 public:
  Sweep(const std::string& prefix, std::chrono::milliseconds most, bool by_slot)
      : pattern_(escape(prefix)), end_at_(RemoteWorker::Clock::now() + most), by_slot_(by_slot) {}

  // Ready when the last share of this has gone: the promise is broken then.
  std::future<void> end() { return ended_.get_future(); }

  void scan(Connection& connection, std::string_view cursor) {
    connection.add_control(command_of({"SCAN", cursor, "MATCH", pattern_, "COUNT", "1000"}),
                           [self = shared_from_this(), &connection](const Reply* reply) {
                             if (reply == nullptr || reply->elements.size() != 2) return;
                             self->remove(connection, reply->elements[1].elements);
                             const std::string_view next = reply->elements[0].text;
                             const bool is_over = next == "0" || self->has_taken_long();
                             if (!is_over) self->scan(connection, next);
                           });
    connection.flush();
  }

 private:
  bool has_taken_long() const { return RemoteWorker::Clock::now() >= end_at_; }

  // A page at once; on a cluster, where the keys of a command share their slot, its slots at once.
  void remove(Connection& connection, const std::vector<Reply>& keys) {
    std::map<std::uint16_t, std::vector<std::string_view>> commands;
    for (const Reply& key : keys) {
      auto& words = commands[by_slot_ ? slot_of(key.text) : std::uint16_t{0}];
      if (words.empty()) words.push_back("UNLINK");
      words.push_back(key.text);
    }
    for (const auto& [slot, words] : commands) {
      connection.add_control(command_of(words), [self = shared_from_this()](const Reply*) {});
    }
  }

  const std::string pattern_;
  const RemoteWorker::Clock::time_point end_at_;
  const bool by_slot_;
  std::promise<void> ended_;
};

}  // namespace

void sweep(RemoteWorker& worker, RedisRouter& router, const std::string& prefix,
           std::chrono::milliseconds most) {
  auto all = std::make_shared<Sweep>(prefix, most, router.is_cluster());
  const std::future<void> end = all->end();
  worker.post([all = std::move(all), &router] {
    if (!router.was_connected()) return;
    // Also a server that is not connected yet: it may have replaced the one that was written to.
    for (Connection* connection : router.servers()) all->scan(*connection, "0");
  });
  end.wait();
}

}  // namespace sluice::redis
