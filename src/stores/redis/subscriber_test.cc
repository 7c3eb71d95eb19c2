// A watcher is called when its channel is heard, and not before; the server is the test's.

#include "stores/redis/subscriber.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <semaphore>
#include <thread>

#include "net/fake_server_test.h"
#include "net/run_on_loop_test.h"

namespace sluice::redis {
namespace {

constexpr int kLinesOfGreeting = 7;   // CLIENT SETNAME sluice
constexpr int kLinesOfSubscribe = 5;  // SUBSCRIBE x
constexpr std::string_view kConfirmed = "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n";
constexpr std::string_view kMessage = "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$0\r\n\r\n";

class SubscriberTest : public testing::Test {
 protected:
  SubscriberTest() {
    take_place();
    peer_.emplace(server_.accept());
    peer_->lines(kLinesOfGreeting + kLinesOfSubscribe);
    peer_->send("+OK\r\n");
  }
  ~SubscriberTest() override {
    loop_.stop();
    thread_.join();
  }

  // Who watches goes and another comes, before the server can be told. Returns when it has been.
  void take_place() {
    on_loop([this] {
      watch_.reset();
      watch_ = subscriber_.watch("x", [this] { called_.release(); });
    });
    on_loop([] {});
  }
  bool was_called() { return called_.try_acquire(); }
  bool await_call() { return called_.try_acquire_for(std::chrono::milliseconds(kPatienceMs)); }

  const RedisOptions options_;
  FakeServer server_;
  EventLoop loop_;
  Subscriber subscriber_{options_, loop_, [this] { return std::vector{server_.endpoint()}; }};
  std::counting_semaphore<> called_{0};
  std::unique_ptr<Watch> watch_;
  std::optional<Peer> peer_;
  std::thread thread_{[this] { loop_.run(); }};

 private:
  void on_loop(const std::function<void()>& task) { run_on_loop(loop_, task); }
};

TEST_F(SubscriberTest, WhoTakesAPlaceIsCalledOnceTheServerHasConfirmedTheChannel) {
  take_place();
  EXPECT_FALSE(was_called());
  peer_->send(kConfirmed);
  ASSERT_TRUE(await_call());
  peer_->send(kMessage);
  ASSERT_TRUE(await_call());
  EXPECT_FALSE(was_called());
}

TEST_F(SubscriberTest, WhoTakesAPlaceThatIsHeardIsCalledOnce) {
  peer_->send(kConfirmed);
  ASSERT_TRUE(await_call());
  take_place();
  EXPECT_TRUE(was_called());
  EXPECT_FALSE(was_called());
}

}  // namespace
}  // namespace sluice::redis
