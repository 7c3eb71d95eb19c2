#include "replay/output_file.h"

#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace sluice::replay {

OutputFile::OutputFile(int descriptor, std::string contents, std::string name)
    : descriptor_(descriptor), contents_(std::move(contents)), name_(std::move(name)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void OutputFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::finish() {
  assert(descriptor_ >= 0);
  if (close(std::exchange(descriptor_, -1)) != 0) fail(errno);
}

void OutputFile::fail(int error) const {
  throw std::runtime_error(contents_ + " cannot be written to " + name_ + ": " +
                           std::generic_category().message(error));
}

}  // namespace sluice::replay
