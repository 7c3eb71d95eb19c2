#include "replay/decision_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

#include "servers/temporary_folder.h"
#include "testing/error_of.h"
#include "testing/unique_fd.h"

namespace sluice::replay {
namespace {

std::string error_of_finish(DecisionWriter& writer) {
  return error_of<std::runtime_error>([&] { writer.finish(); });
}

// An error of closing the file is reported, even if all writes succeeded.
TEST(DecisionWriter, FinishReportsCloseErrors) {
  const int descriptor = open("/dev/null", O_WRONLY | O_CLOEXEC);
  OutputFile file(descriptor, "the decisions", "out");
  DecisionWriter writer(file);
  close(descriptor);
  EXPECT_EQ(error_of_finish(writer), "the decisions cannot be written to out: Bad file descriptor");
}

// The path may lead to another file by now.
TEST(DecisionWriter, APageThatFailsEmptiesNoOtherFile) {
  const servers::TemporaryFolder directory;
  const std::string path = directory.write("page", "another's");
  OutputFile file(open("/dev/full", O_WRONLY | O_CLOEXEC), "the page", path);
  EXPECT_THROW(write_page(file, "text"), std::runtime_error);
  EXPECT_EQ(std::filesystem::file_size(path), 9U);
}

TEST(DecisionWriter, WritesNothingTwice) {
  const servers::TemporaryFolder directory;
  const int descriptor = open("/dev/full", O_WRONLY | O_CLOEXEC);
  OutputFile file(descriptor, "the decisions", "out");
  DecisionWriter writer(file);
  const std::string key(std::size_t{1} << 20, 'a');
  EXPECT_THROW(writer.write({.key = key, .decision = {}}, "\"limit\""), std::runtime_error);
  const UniqueFd empty(open(directory.write("out", "").c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(dup2(empty.get(), descriptor), descriptor);  // There is room again.
  EXPECT_EQ(error_of_finish(writer), "");
  EXPECT_EQ(directory.read("out"), "");
}

TEST(DecisionWriter, WaitsForRoomInAPipeThatDoesNotBlock) {
  int ends[2] = {};
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd source(ends[0]);
  ASSERT_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  std::size_t bytes = 0;
  std::jthread reader([&] {
    std::array<char, 16> part{};  // So small that the pipe is full most of the time.
    while (const ssize_t count = read(source.get(), part.data(), part.size())) bytes += count;
  });
  {
    OutputFile file(ends[1], "the decisions", "standard output");
    DecisionWriter writer(file);
    writer.write({.key = std::string(std::size_t{1} << 18, 'a'), .decision = {}}, "\"limit\"");
    EXPECT_EQ(error_of_finish(writer), "");
  }
  reader.join();
  EXPECT_GT(bytes, std::size_t{1} << 18);
}

}  // namespace
}  // namespace sluice::replay
