#include "servers/redis_server.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "servers/await.h"

namespace sluice::servers {
namespace {

/// The state letter of `ps`; empty if there is no such process.
std::string process_state(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string pid, name, state;
  file >> pid >> name >> state;
  return state;
}

TEST(RedisServer, DiesWithTheProcessThatStartedIt) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const pid_t starter = ::fork();
  if (starter == 0) {
    const RedisServer server;
    const pid_t pid = server.pid();
    std::filesystem::remove_all(server.folder());  // No destructor runs after _exit().
    ::_exit(::write(pipe_ends[1], &pid, sizeof(pid)) == sizeof(pid) ? 0 : 1);
  }
  int status = -1;
  ::waitpid(starter, &status, 0);
  ASSERT_EQ(status, 0);
  pid_t server = -1;
  ASSERT_EQ(::read(pipe_ends[0], &server, sizeof(server)), static_cast<ssize_t>(sizeof(server)));
  // The system kills it, and its new parent may take a moment to reap it.
  EXPECT_NO_THROW(await("the end of the server", [server] {
    const std::string state = process_state(server);
    return state.empty() || state == "Z";
  }));
}

}  // namespace
}  // namespace sluice::servers
