// What a child of fork() does with its parent's store.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "servers/each_server.h"
#include "sluice/sluice.h"
#include "testing/child_process.h"

namespace sluice {
namespace {

class ForkWith : public servers::OnEachServer {
 protected:
  // The store's worker thread waits for its next batch.
  void SetUp() override { EXPECT_EQ(limiter_->check("key").source, Source::kStore); }

  const std::string url_ = server_->url() + "?deadline=10s";
  std::shared_ptr<Store> store_ = open_store(url_);
  std::optional<Limiter> limiter_ = Limiter(store_, Limit("fixed_window 5/1d", "a"));
};

INSTANTIATE_TEST_SUITE_P(EveryServer, ForkWith, servers::kEachServer, servers::name_of);

TEST_P(ForkWith, AChildReplacesTheStoreOfItsParent) {
  EXPECT_EQ(in_child_process([this] {
              limiter_.reset();
              store_ = open_store(url_);
              Limiter own(store_, Limit("fixed_window 5/1d", "a"));
              const Decision decision = own.check("key");
              return decision.source == Source::kStore && decision.remaining == 3;
            }),
            0);
  const Decision decision = limiter_->check("key");
  EXPECT_EQ(decision.source, Source::kStore) << "the parent goes on";
  EXPECT_EQ(decision.remaining, 2);
}

TEST_P(ForkWith, AChildExitsWithTheStoreOfItsParent) {
  EXPECT_EQ(in_child_process([this]() -> bool {
              // The last that exit() does: memory that only the parent's threads refer to would
              // look lost to the leak sanitizer.
              std::atexit([] { ::_exit(0); });
              static const auto destroyed_by_exit = std::move(store_);
              limiter_.reset();
              std::exit(1);
            }),
            0);
  EXPECT_EQ(limiter_->check("key").source, Source::kStore) << "the parent goes on";
}

TEST_P(ForkWith, AProgramThatIsStartedHasNoConnection) {
  const std::unique_ptr<FILE, int (*)(FILE*)> listed(::popen("readlink /proc/self/fd/*", "r"),
                                                     ::pclose);
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), listed.get()) != nullptr) {
    EXPECT_FALSE(std::string_view(line.data()).starts_with("socket:")) << line.data();
  }
}

TEST_P(ForkWith, TheStoresThreadsLeaveSignalsToTheProgram) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (std::stoi(task.path().filename()) == ::getpid()) continue;
    std::ifstream status(task.path() / "status");
    const std::string text(std::istreambuf_iterator<char>(status), {});
    const std::size_t at = text.find("SigBlk:") + 8;
    const auto blocked = std::stoull(text.substr(at, 16), nullptr, 16);
    EXPECT_NE(blocked >> (SIGTERM - 1) & 1, 0U) << text;
  }
}

// A thread of the parent that opens limits often holds a lock at the moment of the fork. (One of
// the address sanitizer's allocator, too, now and then: see in_child_process().)
TEST(Fork, AChildLetsGoOfAMemoryStoreThatItsParentUses) {
  const auto store = open_store("memory:");
  std::jthread opens([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) Limiter(store, Limit("fixed_window 5/1d", "opened"));
  });
  std::optional<Limiter> limiter = Limiter(store, Limit("fixed_window 5/1d", "a"));
  int blocked = 0;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(5);
      limiter.reset();
      ::_exit(0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    blocked += status == 0 ? 0 : 1;
  }
  EXPECT_LE(blocked, 2);
}

}  // namespace
}  // namespace sluice
