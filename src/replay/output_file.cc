#include "replay/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <utility>

#include "core/exit_status.h"
#include "replay/run_command.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr mode_t kOutputMode = 0666;

/// Whether two open descriptors are of one file. Into a device (/dev/null, a terminal) both may
/// write.
bool is_one_file(int a, int b) {
  struct stat one {};
  struct stat two {};
  return fstat(a, &one) == 0 && fstat(b, &two) == 0 && !S_ISCHR(one.st_mode) &&
         one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

/// Whether the path still leads to the open file, and no other process has written into that.
bool is_as_made(int descriptor, const std::string& path) {
  struct stat open {};
  struct stat there {};
  return fstat(descriptor, &open) == 0 && open.st_size == 0 && lstat(path.c_str(), &there) == 0 &&
         open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

}  // namespace

OutputFile::OutputFile(int descriptor, std::string contents, std::string name, bool is_standard,
                       std::string made)
    : descriptor_(descriptor),
      contents_(std::move(contents)),
      name_(std::move(name)),
      is_standard_(is_standard),
      made_(std::move(made)) {}

OutputFile::~OutputFile() {
  if (!made_.empty() && is_as_made(descriptor_, made_)) unlink(made_.c_str());
  close(descriptor_);
}

void OutputFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {  // Another process may have set O_NONBLOCK.
      pollfd file{.fd = descriptor_, .events = POLLOUT, .revents = 0};
      ::poll(&file, 1, -1);
      continue;
    }
    if (written < 0) fail(errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::finish() {
  const int copy = fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0 || close(copy) != 0) fail(errno);
}

void OutputFile::clear() {
  made_.clear();
  if (is_standard_) return;
  if (::ftruncate(descriptor_, 0) != 0) return;  // Nothing better can be done.
}

bool OutputFile::is_same(const OutputFile& other) const {
  return (is_standard_ && other.is_standard_) || is_one_file(descriptor_, other.descriptor_);
}

void OutputFile::fail(int error) const {
  throw std::runtime_error(contents_ + " cannot be written to " + name_ + ": " + why_not(error));
}

std::unique_ptr<OutputFile> open_output(std::string_view option, std::string_view contents,
                                        const std::string& path, const std::vector<Input>& inputs,
                                        const OutputFile* other) {
  if (path.empty()) return nullptr;
  const bool is_standard = path == "-";
  const std::string name = is_standard ? "standard output" : printable(path, kTypedColumns);
  const std::string label = std::string(option) + ": " + name;
  constexpr int kOpen = O_WRONLY | O_CREAT | O_CLOEXEC;
  int descriptor = is_standard ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                               : open(path.c_str(), kOpen | O_EXCL, kOutputMode);
  const bool is_made = !is_standard && descriptor >= 0;
  if (!is_standard && !is_made) descriptor = open(path.c_str(), kOpen, kOutputMode);
  if (descriptor < 0) throw ReplayError(kFailed, label + ": " + why_not(errno));
  auto file = std::make_unique<OutputFile>(descriptor, std::string(contents), name, is_standard,
                                           is_made ? path : std::string());
  struct stat status {};
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && is_read(status, inputs)) {
    throw ReplayError(kMisused, label + " is also read and would be lost");
  }
  if (!is_standard && is_one_file(descriptor, STDOUT_FILENO)) {
    throw ReplayError(kMisused, label + " is also standard output, whose name is -");
  }
  if (other != nullptr && file->is_same(*other)) {
    throw ReplayError(kMisused, label + " is also for " + other->contents());
  }
  return file;
}

void write_page(OutputFile& file, std::string_view page) {
  try {
    file.write(page);
    file.finish();
  } catch (const std::runtime_error&) {
    file.clear();
    throw;
  }
}

}  // namespace sluice::replay
