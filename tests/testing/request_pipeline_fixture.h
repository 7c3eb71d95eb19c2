#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/io_context.h"
#include "net/request_pipeline.h"
#include "testing/fake_server.h"

namespace sluice {

// For the tests of net.

/// A reply is a line; one that begins with '!' is none.
class LineFraming final : public Framing {
 public:
  std::size_t reply_bytes(std::string_view input) override {
    if (input.front() == '!') return kMalformed;
    const std::size_t end = input.find('\n', seen_);
    seen_ = end == std::string_view::npos ? input.size() : 0;
    return end == std::string_view::npos ? 0 : end + 1;
  }

 private:
  std::size_t seen_ = 0;
};

/// What the pipeline's thread writes and a test waits for.
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
struct TestCommand {
  /// After it, what follows can be read.
  bool await_end() {
    return board.wait([&] { return endings != 0; });
  }

  Board& board;
  const std::string text;
  std::size_t reply_count = 1;
  /// Called first of all when it ends.
  std::function<void()> then = {};
  int endings = 0;
  std::string answer = {};
  std::optional<Loss> loss = {};
  std::string why = {};
};

/// What the pipeline owns of it.
class LentCommand final : public Command {
 public:
  explicit LentCommand(TestCommand& command) : command_(command) {}

  std::size_t replies() const override { return command_.reply_count; }
  void write(std::string& output) override { output += command_.text; }
  void on_reply(std::string_view reply) override {
    end([&] { command_.answer = reply; });
  }
  void on_lost(Loss loss, std::string_view why) override {
    end([&] {
      command_.loss = loss;
      command_.why = why;
    });
  }

 private:
  template <typename Note>
  void end(Note note) {
    if (command_.then) command_.then();
    command_.board.change([&] {
      ++command_.endings;
      note();
    });
  }

  TestCommand& command_;
};

/// Sends lines. What begins with '>' is a push.
class LineUser final : public PipelineUser {
 public:
  explicit LineUser(Board& board) : board_(board) {}

  std::unique_ptr<Command> next_command() override {
    std::unique_ptr<Command> next;
    board_.change([&] {
      if (waiting.empty()) return;
      next = std::make_unique<LentCommand>(*waiting.front());
      waiting.pop_front();
    });
    return next;
  }
  std::string handshake() override { return handshake_text; }
  std::size_t handshake_replies() override { return handshake_count; }
  std::optional<std::string> on_handshake_reply(std::size_t i, std::string_view reply) override {
    board_.change([&] { handshaken.push_back(std::to_string(i) + " " + std::string(reply)); });
    if (reply.front() == '-') return "the server says " + std::string(reply);
    return std::nullopt;
  }
  std::unique_ptr<Framing> make_framing() override { return std::make_unique<LineFraming>(); }
  void on_up() override {
    board_.change([&] { ++ups; });
  }
  void on_down(std::string_view why, bool is_broken) override {
    if (when_down) when_down();
    board_.change([&] {
      downs.emplace_back(why);
      broken.push_back(is_broken);
      down_at.push_back(std::chrono::steady_clock::now());
    });
  }
  bool on_push(std::string_view reply) override {
    if (reply.front() != '>') return false;
    board_.change([&] { pushes.emplace_back(reply); });
    return true;
  }

  /// Set before the pipeline is started.
  std::string handshake_text;
  std::size_t handshake_count = 0;
  std::function<void()> when_down;

  std::deque<TestCommand*> waiting;
  std::vector<std::string> handshaken;
  std::size_t ups = 0;
  std::vector<std::string> downs;
  std::vector<bool> broken;  // With each of them.
  std::vector<std::chrono::steady_clock::time_point> down_at;
  std::vector<std::string> pushes;

 private:
  Board& board_;
};

/// A context with its thread, a user and one pipeline.
class RequestPipelineFixture : public testing::Test {
 protected:
  static constexpr auto kNever = std::chrono::milliseconds(60'000);

  ~RequestPipelineFixture() override {
    close();
    context_.asio()->stop();
    thread_.join();
  }

  /// A line of so many bytes.
  static std::string long_line(std::size_t bytes) {
    std::string line;
    line.resize(bytes, 'x');
    line.back() = '\n';
    return line;
  }

  /// Only what a test is about comes about by the clock.
  static PipelineOptions patient(const Endpoint& endpoint) {
    return {.endpoint = endpoint,
            .connect_timeout = kNever,
            .silence_timeout = kNever,
            .least_pause = std::chrono::milliseconds(1),
            .most_pause = std::chrono::milliseconds(5)};
  }

  /// Runs `task` on the pipeline's thread, and waits for it.
  void on_thread(const std::function<void()>& task) {
    std::promise<void> done;
    context_.post([&] {
      task();
      done.set_value();
    });
    done.get_future().get();
  }
  /// What had happened before has been noticed.
  void settle() {
    on_thread([this] { context_.asio()->poll(); });
  }
  bool has_work() {
    bool has_work = false;
    on_thread([&] { has_work = context_.has_work(); });
    return has_work;
  }

  void open(PipelineOptions options) {
    on_thread([&] {
      pipeline_ = RequestPipeline::make(context_, std::move(options), user_);
      pipeline_->start();
    });
  }
  void close() {
    on_thread([&] { pipeline_.reset(); });
  }
  void ask(const std::vector<TestCommand*>& commands) {
    on_thread([&] { ask_here(commands); });
  }
  /// The same on the pipeline's thread.
  void ask_here(const std::vector<TestCommand*>& commands) {
    board_.change(
        [&] { user_.waiting.insert(user_.waiting.end(), commands.begin(), commands.end()); });
    pipeline_->flush();
  }
  /// Sends "?", which `peer` has received when this returns.
  template <typename AnyPeer>
  TestCommand& ask_on(AnyPeer& peer) {
    TestCommand& asked = command("?\n");
    ask({&asked});
    EXPECT_EQ(peer.line(), "?\n");
    return asked;
  }
  /// Lives as long as the pipeline.
  TestCommand& command(std::string text) {
    return commands_.emplace_back(TestCommand{board_, std::move(text)});
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
  Peer connect(FakeServer& server) { return connect(server, patient(server.endpoint())); }
  Peer connect(FakeServer& server, PipelineOptions options) {
    open(std::move(options));
    Peer peer = server.accept();
    EXPECT_TRUE(await_up());
    return peer;
  }

  Board board_;
  std::deque<TestCommand> commands_;
  LineUser user_{board_};
  IoContext context_;
  std::thread thread_{[this] { context_.asio()->run(); }};
  std::shared_ptr<RequestPipeline> pipeline_;
};

}  // namespace sluice
