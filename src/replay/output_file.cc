#include "replay/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <utility>

#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr mode_t kOutputMode = 0666;

/// Whether standard output writes to the file with this status, where the summary would lie over
/// what is written by another descriptor. Into a device (/dev/null, a terminal) both may write.
bool is_standard_output(const struct stat& file) {
  struct stat status {};
  return fstat(STDOUT_FILENO, &status) == 0 && !S_ISCHR(status.st_mode) &&
         status.st_dev == file.st_dev && status.st_ino == file.st_ino;
}

}  // namespace

OutputFile::OutputFile(int descriptor, std::string contents, std::string name)
    : descriptor_(descriptor), contents_(std::move(contents)), name_(std::move(name)) {}

OutputFile::~OutputFile() {
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
  if (::ftruncate(descriptor_, 0) != 0) return;  // Nothing better can be done.
}

void OutputFile::fail(int error) const {
  throw std::runtime_error(contents_ + " cannot be written to " + name_ + ": " + why_not(error));
}

std::unique_ptr<OutputFile> open_output(std::string_view option, std::string_view contents,
                                        const std::string& path, const std::vector<Input>& inputs) {
  if (path.empty()) return nullptr;
  const std::string label = std::string(option) + ": ";
  const bool is_standard = path == "-";
  const std::string name = is_standard ? "standard output" : printable(path, kTypedColumns);
  struct stat status {};
  const bool is_there =
      (is_standard ? fstat(STDOUT_FILENO, &status) : stat(path.c_str(), &status)) == 0;
  if (is_there && S_ISREG(status.st_mode) && is_read(status, inputs)) {
    throw ReplayError(kMisused, label + name + " is also read and would be lost");
  }
  if (is_there && !is_standard && is_standard_output(status)) {
    throw ReplayError(kMisused, label + name + " is also standard output, whose name is -");
  }
  const int descriptor =
      is_standard ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                  : open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kOutputMode);
  if (descriptor < 0) throw ReplayError(kFailed, label + name + ": " + why_not(errno));
  return std::make_unique<OutputFile>(descriptor, std::string(contents), name);
}

void write_page(OutputFile& file, const std::string& path, std::string_view page) {
  try {
    file.write(page);
    file.finish();
  } catch (const std::runtime_error&) {
    if (path != "-") file.clear();
    throw;
  }
}

}  // namespace sluice::replay
