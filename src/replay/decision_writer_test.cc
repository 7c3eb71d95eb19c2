#include "replay/decision_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <string>

#include "servers/temporary_folder.h"
#include "testing/error_of.h"

namespace sluice::replay {
namespace {

std::string error_of_finish(DecisionWriter& writer) {
  return error_of<std::runtime_error>([&] { writer.finish(); });
}

TEST(DecisionWriter, FinishWritesAndCloses) {
  const servers::TemporaryFolder directory;
  const int descriptor = open(directory.write("out", "").c_str(), O_WRONLY | O_CLOEXEC);
  OutputFile file(descriptor, "the decisions", "out");
  DecisionWriter writer(file);
  writer.write({.key = "a", .decision = {}}, "\"limit\"");
  EXPECT_EQ(error_of_finish(writer), "");
  EXPECT_TRUE(directory.read("out").starts_with(R"({"time_ns":0,"key":"a",)"));
  EXPECT_EQ(fcntl(descriptor, F_GETFD), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(DecisionWriter, FinishReportsWriteErrors) {
  OutputFile file(open("/dev/full", O_WRONLY | O_CLOEXEC), "the decisions", "/dev/full");
  DecisionWriter writer(file);
  writer.write({.key = "a", .decision = {}}, "\"limit\"");
  EXPECT_EQ(error_of_finish(writer),
            "the decisions cannot be written to /dev/full: No space left on device");
}

// An error of closing the file is reported, even if all writes succeeded.
TEST(DecisionWriter, FinishReportsCloseErrors) {
  const int descriptor = open("/dev/null", O_WRONLY | O_CLOEXEC);
  OutputFile file(descriptor, "the decisions", "out");
  DecisionWriter writer(file);
  close(descriptor);
  EXPECT_EQ(error_of_finish(writer), "the decisions cannot be written to out: Bad file descriptor");
}

}  // namespace
}  // namespace sluice::replay
