#include "server/file_watch.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <thread>

#include "testing/refuse_system_call.h"

namespace sluice {
namespace {

TEST(FileWatchTest, SaysWhyItCannotWatch) {
  // In a thread of its own, where the refusal ends.
  std::thread([] {
    ASSERT_TRUE(refuse_system_call(SYS_inotify_init1));
    boost::asio::io_context context;
    FileWatch watch(context, [] {});
    EXPECT_EQ(watch.error(), "");
    watch.watch({"/none/file"});
    EXPECT_EQ(watch.error(), "cannot watch the folder /: Operation not permitted");
  }).join();
}

}  // namespace
}  // namespace sluice
