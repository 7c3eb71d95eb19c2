#pragma once

#include <filesystem>

namespace sluice::servers {

/// A new folder in the system's folder for temporary files. It is removed with its contents.
class TemporaryFolder {
 public:
  /// Throws std::system_error.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace sluice::servers
