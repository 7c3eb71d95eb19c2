// What a child of fork() does with its parent's store.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "servers/memcached_server.h"
#include "servers/redis_server.h"
#include "sluice/sluice.h"
#include "testing/child_process.h"

namespace sluice {
namespace {

constexpr unsigned kMostSeconds = 20;  // A child that blocks is killed.

template <class Server>
class ForkWith : public testing::Test {
 protected:
  // The store's worker thread waits for its next batch.
  void SetUp() override { EXPECT_EQ(limiter_->check("key").source, Source::kStore); }

  const Server server_;
  const std::string url_ = server_.url() + "?deadline=10s";
  std::shared_ptr<Store> store_ = open_store(url_);
  std::optional<Limiter> limiter_ = Limiter(store_, Limit("fixed_window 5/1d", "a"));
};

using Servers = testing::Types<servers::RedisServer, servers::MemcachedServer>;
TYPED_TEST_SUITE(ForkWith, Servers);

TYPED_TEST(ForkWith, AChildReplacesTheStoreOfItsParent) {
  EXPECT_EQ(in_child_process([this] {
              ::alarm(kMostSeconds);
              this->limiter_.reset();
              this->store_ = open_store(this->url_);
              Limiter own(this->store_, Limit("fixed_window 5/1d", "a"));
              const Decision decision = own.check("key");
              return decision.source == Source::kStore && decision.remaining == 3;
            }),
            0);
  const Decision decision = this->limiter_->check("key");
  EXPECT_EQ(decision.source, Source::kStore) << "the parent goes on";
  EXPECT_EQ(decision.remaining, 2);
}

TYPED_TEST(ForkWith, AChildExitsWithTheStoreOfItsParent) {
  EXPECT_EQ(in_child_process([this]() -> bool {
              ::alarm(kMostSeconds);
              // The last that exit() does: memory that only the parent's threads refer to would
              // look lost to the leak sanitizer.
              std::atexit([] { ::_exit(0); });
              static const auto destroyed_by_exit = std::move(this->store_);
              this->limiter_.reset();
              std::exit(1);
            }),
            0);
  EXPECT_EQ(this->limiter_->check("key").source, Source::kStore) << "the parent goes on";
}

}  // namespace
}  // namespace sluice
