#include "replay/inputs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/exit_status.h"
#include "replay/run_command.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

/// Of the open descriptor if it is standard input, which works without /dev/stdin, too.
bool read_status(const Input& input, struct stat& status) {
  return input.path == "-" ? fstat(STDIN_FILENO, &status) == 0
                           : stat(input.path.c_str(), &status) == 0;
}

/// The key template that the user gave, if any. Throws ReplayError if it is wrong or fits no file
/// of this format.
std::optional<KeyTemplate> read_key(const std::optional<std::string>& key, Format format) {
  if (!key) return std::nullopt;
  try {
    KeyTemplate made(*key);
    if (format == Format::kCommon || format == Format::kCombined) {
      made.bind(*make_log_reader(format));
    }
    return made;
  } catch (const std::invalid_argument& error) {
    throw ReplayError(kMisused, std::string("--key: ") + error.what());
  }
}

std::vector<Input> find_inputs(const std::vector<std::string>& files) {
  std::vector<Input> inputs;
  for (const std::string& path : files.empty() ? std::vector<std::string>{"-"} : files) {
    const bool is_standard = path == "-";
    Input input{.path = path,
                .name = is_standard ? "standard input" : printable(path, kTypedColumns)};
    struct stat status {};
    const bool is_there =
        read_status(input, status) && (is_standard || access(path.c_str(), R_OK) == 0);
    if (!is_there) throw ReplayError(kFailed, input.name + ": " + why_not(errno));
    if (S_ISDIR(status.st_mode)) throw ReplayError(kFailed, input.name + ": " + why_not(EISDIR));
    if (is_standard && std::any_of(inputs.begin(), inputs.end(),
                                   [](const Input& other) { return other.path == "-"; })) {
      throw ReplayError(kMisused, "standard input is given twice");
    }
    input.bytes = S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace

std::string why_not(int error) {
  return std::generic_category().message(error);
}

Logs find_logs(const LogOptions& options) {
  return {.key = read_key(options.key, options.format),
          .inputs = find_inputs(options.files),
          .format = options.format,
          .is_strict = options.is_strict};
}

int open_input(const Input& input) {
  const int descriptor = input.path == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                           : open(input.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw ReplayError(kFailed, input.name + ": " + why_not(errno));
  return descriptor;
}

bool is_read(const struct stat& file, const std::vector<Input>& inputs) {
  return std::ranges::any_of(inputs, [&](const Input& input) {
    struct stat status {};
    return read_status(input, status) && status.st_dev == file.st_dev &&
           status.st_ino == file.st_ino;
  });
}

}  // namespace sluice::replay
