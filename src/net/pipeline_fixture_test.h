#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/event_loop.h"
#include "net/fake_server_test.h"
#include "net/line_framing_test.h"
#include "net/pipeline.h"
#include "net/run_on_loop_test.h"

namespace sluice {

/// What the loop's thread writes and a test waits for.
class Board {
 public:
  template <typename Change>
  void change(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  /// False where the condition has not come to hold within ten seconds.
  template <typename Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(kPatienceMs), condition);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// A line to send, and what became of it.
class Question final : public Exchange {
 public:
  Question(Board& board, std::string text) : board_(board), text_(std::move(text)) {}

  void write(std::string& output) override {
    output += text_;
    if (too_long) throw std::bad_alloc();
  }
  void on_reply(std::string_view reply) override {
    if (then) then();
    board_.change([&] {
      ++endings;
      answer = reply;
      thread = std::this_thread::get_id();
    });
  }
  void on_lost(Loss how, std::string_view reason) override {
    if (then) then();
    board_.change([&] {
      ++endings;
      loss = how;
      why = reason;
    });
  }

  /// After it, what follows can be read.
  bool await_end() {
    return board_.wait([&] { return endings != 0; });
  }

  /// There is no memory for it.
  bool too_long = false;
  /// Called first of all when it ends.
  std::function<void()> then;
  int endings = 0;
  std::string answer;
  std::thread::id thread;
  std::thread::id caller;
  std::optional<Loss> loss;
  std::string why;

 private:
  Board& board_;
  std::string text_;
};

class LineUser final : public PipelineUser {
 public:
  explicit LineUser(Board& board) : board_(board) {}

  Exchange* next_exchange() override {
    Exchange* next = nullptr;
    board_.change([&] {
      if (waiting.empty()) return;
      next = waiting.front();
      waiting.pop_front();
    });
    return next;
  }
  std::string greeting() override { return greets; }
  std::size_t greeting_replies() override { return greeting_count; }
  std::optional<std::string> on_greeting(std::size_t i, std::string_view reply) override {
    board_.change([&] { greeted.push_back(std::to_string(i) + " " + std::string(reply)); });
    if (reply.front() == '-') return "the server says " + std::string(reply);
    return std::nullopt;
  }
  std::unique_ptr<Framing> make_framing() override { return std::make_unique<LineFraming>(); }
  void on_up() override {
    board_.change([&] { ++ups; });
  }
  void on_down(std::string_view why) override {
    if (when_down) when_down();
    board_.change([&] {
      downs.emplace_back(why);
      down_at.push_back(std::chrono::steady_clock::now());
    });
  }

  /// Set before the pipeline is started.
  std::string greets;
  std::size_t greeting_count = 0;
  std::function<void()> when_down;

  std::deque<Exchange*> waiting;
  std::vector<std::string> greeted;
  std::size_t ups = 0;
  std::vector<std::string> downs;
  std::vector<std::chrono::steady_clock::time_point> down_at;

 private:
  Board& board_;
};

/// A loop with its thread, a user and one pipeline.
class PipelineFixture : public testing::Test {
 protected:
  static constexpr auto kNever = std::chrono::milliseconds(60'000);

  ~PipelineFixture() override {
    close();
    loop_.stop();
    thread_.join();
  }

  /// A line of so many bytes.
  static std::string long_line(std::size_t bytes) {
    std::string line;
    line.resize(bytes, 'x');
    line.back() = '\n';
    return line;
  }

  static std::chrono::steady_clock::time_point in(std::chrono::milliseconds wait) {
    return std::chrono::steady_clock::now() + wait;
  }

  /// Only what a test is about comes about by the clock.
  static PipelineOptions patient(const Endpoint& endpoint) {
    return {.endpoint = endpoint,
            .connect_timeout = kNever,
            .silence_timeout = kNever,
            .least_pause = std::chrono::milliseconds(1),
            .most_pause = std::chrono::milliseconds(5)};
  }

  /// Runs `task` on the loop's thread, and waits for it.
  void on_loop(const std::function<void()>& task) { run_on_loop(loop_, task); }
  /// What had happened before has been noticed.
  void settle() {
    for (int round = 0; round < 2; ++round) on_loop([] {});
  }

  void open(PipelineOptions options) {
    on_loop([&] {
      pipeline_ = std::make_unique<Pipeline>(loop_, std::move(options), user_);
      pipeline_->start();
    });
  }
  void close() {
    on_loop([&] { pipeline_.reset(); });
  }
  void ask(std::vector<Question*> questions) {
    board_.change(
        [&] { user_.waiting.insert(user_.waiting.end(), questions.begin(), questions.end()); });
    on_loop([&] { pipeline_->kick(); });
  }
  /// Lives as long as the pipeline.
  Question& question(std::string text) {
    return *questions_.emplace_back(std::make_unique<Question>(board_, std::move(text)));
  }

  bool await_up(std::size_t times = 1) {
    return board_.wait([&] { return user_.ups >= times; });
  }
  bool await_downs(std::size_t times) {
    return board_.wait([&] { return user_.downs.size() >= times; });
  }
  /// Why the connection has been down so far.
  std::vector<std::string> downs() {
    std::vector<std::string> copy;
    board_.change([&] { copy = user_.downs; });
    return copy;
  }
  /// Opens, and accepts the connection.
  Peer connect(FakeServer& server) {
    open(patient(server.endpoint()));
    Peer peer = server.accept();
    EXPECT_TRUE(await_up());
    return peer;
  }

  Board board_;
  std::vector<std::unique_ptr<Question>> questions_;
  LineUser user_{board_};
  EventLoop loop_;
  std::thread thread_{[this] { loop_.run(); }};
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace sluice
