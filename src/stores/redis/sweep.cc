#include "stores/redis/sweep.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
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

// Each server's keys are found by SCAN and removed as they are found. Belongs to the thread that
// leads the worker; answers, which may come after it has ended, keep it alive.
class Sweep final : public std::enable_shared_from_this<Sweep> {
 public:
  using Answer = std::function<void(const Reply* reply)>;

  Sweep(const std::string& prefix, const SweepTimeouts& timeouts)
      : prefix_(prefix), pattern_(escape(prefix)), timeouts_(timeouts) {}

  // Which keys may be left; available when the sweep has ended.
  std::future<std::string> result() { return result_.get_future(); }

  void begin(RemoteWorker& worker, RedisRouter& router) {
    by_slot_ = router.is_cluster();
    silence_.emplace(worker.context(), [this] { give_up(); });
    end_at_ = RemoteWorker::Clock::now() + timeouts_.all;
    await_answer();
    if (router.was_connected()) {
      // Also one that is not connected yet: it may have replaced the one that was written to.
      for (Connection* connection : router.fleet().servers()) scan(*connection, "0");
    }
    if (open_.empty()) end();
  }

 private:
  void scan(Connection& connection, std::string_view cursor) {
    std::string command = command_of({"SCAN", cursor, "MATCH", pattern_, "COUNT", "1000"});
    ask(connection, std::move(command), [this, &connection](const Reply* reply) {
      if (reply == nullptr || reply->elements.size() != 2) {
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
        // Fewer than were asked: SCAN may name a key twice.
        if (reply != nullptr) removed_ += static_cast<std::size_t>(reply->integer);
        if (reply == nullptr) refused_ += asked;
      });
    }
  }

  void ask(Connection& connection, std::string command, Answer answer) {
    ++open_[connection.name()];
    connection.add_control(std::move(command),
                           [self = shared_from_this(), &connection, answer = std::move(answer)](
                               const Reply* reply, std::string_view why) {
                             if (!self->silence_) return;
                             self->await_answer();
                             const std::string& server = connection.name();
                             if (reply == nullptr) self->fail(server, why);
                             answer(reply);
                             if (--self->open_.at(server) == 0) self->open_.erase(server);
                             if (self->open_.empty()) self->end();
                           });
  }

  void await_answer() {
    silence_->set_at(std::min(RemoteWorker::Clock::now() + timeouts_.silence, end_at_));
  }

  // Keeps the first reason.
  void fail(std::string_view server, std::string_view why) {
    if (!why_.empty()) return;
    // A sentence of the connection names the server, one of the server does not.
    const bool named = why.find(server) != std::string_view::npos;
    why_ = (named ? std::string() : std::string(server) + ": ") + std::string(why);
  }

  void give_up() {
    const std::string& silent = open_.begin()->first;
    const bool is_over = RemoteWorker::Clock::now() >= end_at_;
    const auto timeout = std::to_string((is_over ? timeouts_.all : timeouts_.silence).count());
    fail(silent, silent + (is_over ? " has not named all keys within " : " has not answered for ") +
                     timeout + " ms");
    is_whole_ = false;
    end();
  }

  // From here on the thread that waits for the result does not keep this object alive.
  void end() {
    const auto self = shared_from_this();
    silence_.reset();
    if (why_.empty()) return result_.set_value({});
    const std::string left = is_whole_ ? std::to_string(refused_) + " are" : "others may be";
    result_.set_value("of the keys that begin with '" + prefix_ + "' " + std::to_string(removed_) +
                      " were removed, and " + left + " left, to expire after a day: " + why_);
  }

  const std::string prefix_;
  const std::string pattern_;
  const SweepTimeouts timeouts_;
  std::promise<std::string> result_;
  bool by_slot_ = false;
  RemoteWorker::Clock::time_point end_at_;
  std::optional<IoTimer> silence_;           // Until it has ended.
  std::map<std::string, std::size_t> open_;  // What each server has to answer.
  bool is_whole_ = true;                     // All keys were found.
  std::size_t removed_ = 0;
  std::size_t refused_ = 0;
  std::string why_;
};

}  // namespace

std::string sweep(RemoteWorker& worker, RedisRouter& router, const std::string& prefix,
                  const SweepTimeouts& timeouts) {
  const auto all = std::make_shared<Sweep>(prefix, timeouts);
  auto result = all->result();
  worker.post([all, &worker, &router] { all->begin(worker, router); });
  return result.get();
}

}  // namespace sluice::redis
