#include "server/file_watch.h"

#include <sys/inotify.h>

#include <boost/asio/buffer.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "server/yaml_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kChanges = IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ONLYDIR;
/// What a mounted ConfigMap replaces, to replace all files in its folder at once.
constexpr const char* kConfigMapData = "..data";

std::string folder_of(const fs::path& path) {
  const fs::path folder = path.parent_path();
  return folder.empty() ? "." : folder.string();
}

}  // namespace

FileWatch::FileWatch(boost::asio::io_context& context, std::string path,
                     std::function<void()> changed)
    : path_(std::move(path)),
      changed_(std::move(changed)),
      events_(context),
      quiet_(context),
      known_(bytes_of_file()) {
  const int descriptor = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (descriptor < 0) return;
  events_.assign(descriptor);
  watch();
  read();
}

// Watches the file's folder, and that of the file to which it leads by now. Watching a folder twice
// changes nothing.
void FileWatch::watch() {
  std::error_code error;
  const fs::path path(path_);
  const fs::path real = fs::canonical(path, error);
  names_ = {path.filename().string(), kConfigMapData};
  ::inotify_add_watch(events_.native_handle(), folder_of(path).c_str(), kChanges);
  if (error) return;
  names_.insert(real.filename().string());
  ::inotify_add_watch(events_.native_handle(), folder_of(real).c_str(), kChanges);
}

void FileWatch::read() {
  events_.async_read_some(boost::asio::buffer(buffer_),
                          [this](const boost::system::error_code& error, std::size_t bytes) {
                            if (error) return;
                            on_events(bytes);
                            read();
                          });
}

void FileWatch::on_events(std::size_t bytes) {
  bool is_ours = false;
  for (std::size_t at = 0; at < bytes;) {
    inotify_event event{};
    std::memcpy(&event, buffer_.data() + at, sizeof(event));
    const char* const name = buffer_.data() + at + sizeof(event);
    const bool is_lost = (event.mask & IN_Q_OVERFLOW) != 0;
    is_ours = is_ours || is_lost || (event.len != 0 && names_.contains(name));
    at += sizeof(event) + event.len;
  }
  if (is_ours) wait_for_quiet();
}

void FileWatch::wait_for_quiet() {
  quiet_.expires_after(kQuiet);
  quiet_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    watch();
    auto bytes = bytes_of_file();
    if (bytes == known_) return;
    known_ = std::move(bytes);
    changed_();
  });
}

// Nothing where it cannot be read. A file that is too long is known by its beginning.
std::optional<std::string> FileWatch::bytes_of_file() const {
  std::ifstream file(path_, std::ios::binary);
  if (!file) return std::nullopt;
  std::string bytes(kMaxConfigBytes + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

}  // namespace sluice
