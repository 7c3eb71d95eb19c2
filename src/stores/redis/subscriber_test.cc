// A watch is called when the server sends what its channel carries, and not before; the server is
// the test's.

#include "stores/redis/subscriber.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <semaphore>
#include <string_view>

#include "testing/fake_server.h"

namespace sluice::redis {
namespace {

constexpr int kLinesOfHandshake = 10;  // PING, CLIENT SETNAME sluice
constexpr int kLinesOfSubscribe = 5;   // SUBSCRIBE x
constexpr std::string_view kConfirmed = "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n";
constexpr std::string_view kMessage = "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$0\r\n\r\n";

// Nothing is asked of it.
class NoRouter final : public Router {
 public:
  void route(PendingRequest&) override {}
  void flush() override {}
  std::string_view abandon(PendingRequest&) override { return {}; }
};

class SubscriberTest : public testing::Test {
 protected:
  SubscriberTest() {
    worker_.start([] {});
    take_place();
    peer_.emplace(server_.accept());
    peer_->lines(kLinesOfHandshake);
    peer_->send("+PONG\r\n+OK\r\n");
    peer_->lines(kLinesOfSubscribe);
  }
  ~SubscriberTest() override { worker_.stop(); }

  // A watch goes and another comes, before the server can be told. Returns when it has been.
  void take_place() {
    on_worker([this] {
      watch_.reset();
      watch_ = subscriber_.watch("x", [this] { called_.release(); });
    });
    on_worker([] {});
  }
  bool was_called() { return called_.try_acquire(); }
  bool await_call() { return called_.try_acquire_for(std::chrono::milliseconds(kPatienceMs)); }

  const RedisOptions options_;
  FakeServer server_;
  NoRouter router_;
  RemoteWorker worker_{router_, {.deadline = std::chrono::seconds(1)}};
  Subscriber subscriber_{options_, worker_, [this] { return std::vector{server_.endpoint()}; }};
  std::counting_semaphore<> called_{0};
  std::unique_ptr<Watch> watch_;
  std::optional<Peer> peer_;

 private:
  void on_worker(std::function<void()> task) {
    std::promise<void> done;
    worker_.post([&] {
      task();
      done.set_value();
    });
    done.get_future().get();
  }
};

TEST_F(SubscriberTest, AWatchThatTakesAPlaceIsCalledOnceTheServerHasConfirmedTheChannel) {
  take_place();
  EXPECT_FALSE(was_called());
  peer_->send(kConfirmed);
  ASSERT_TRUE(await_call());
  peer_->send(kMessage);
  ASSERT_TRUE(await_call());
  EXPECT_FALSE(was_called());
}

TEST_F(SubscriberTest, AWatchThatTakesAPlaceThatIsConfirmedIsCalledOnce) {
  peer_->send(kConfirmed);
  ASSERT_TRUE(await_call());
  take_place();
  EXPECT_TRUE(was_called());
  EXPECT_FALSE(was_called());
}

}  // namespace
}  // namespace sluice::redis
