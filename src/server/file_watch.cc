#include "server/file_watch.h"

#include <sys/inotify.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>
#include <system_error>
#include <utility>

#include "server/yaml_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// With IN_ATTRIB, since a file may be made readable later.
constexpr std::uint32_t kChanges =
    IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVED_TO | IN_CREATE | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR;
/// As many links as the system follows in one path.
constexpr int kMostLinks = 40;

// Nothing if the file cannot be read. Of a file that is too long, only the beginning is compared.
std::optional<std::string> bytes_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;  // A pipe could keep the reader.
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string bytes(kMaxConfigBytes + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

}  // namespace

FileWatch::FileWatch(boost::asio::io_context& context, std::function<void()> changed)
    : changed_(std::move(changed)), events_(context), quiet_(context) {}

void FileWatch::watch(const std::set<std::string>& paths) {
  const Contents before = std::exchange(known_, {});
  for (const std::string& path : paths) known_[path];
  watch_folders();
  for (auto& [path, bytes] : known_) {
    const auto at = before.find(path);
    bytes = at == before.end() ? bytes_of(path) : at->second;
  }
}

void FileWatch::note() {
  known_ = contents();
}

void FileWatch::watch_folders() {
  names_.clear();
  error_.clear();
  for (const auto& [path, bytes] : known_) watch_folders_of(path);
}

// Watches each folder on the path to the file, since any of them may be removed and made anew.
void FileWatch::watch_folders_of(const std::string& file) {
  const fs::path path = file;
  fs::path folder = path.root_path();  // What is before `left`, without links.
  const fs::path below = path.relative_path();
  std::list<fs::path> left(below.begin(), below.end());
  for (int links = 0; !left.empty() && links <= kMostLinks;) {
    const fs::path name = left.front();
    left.pop_front();
    std::error_code no_link;
    const fs::path target = fs::read_symlink(folder / name, no_link);
    names_.insert(name.string());
    watch_folder(folder.empty() ? "." : folder.string());
    if (no_link) {
      folder /= name;
    } else {
      left.insert(left.begin(), target.begin(), target.end());
      ++links;
    }
  }
}

// Watching a folder twice changes nothing. One that is not there needs no watch: if it is made, the
// folder around it has changed.
void FileWatch::watch_folder(const std::string& folder) {
  if (open() && ::inotify_add_watch(events_.native_handle(), folder.c_str(), kChanges) >= 0) return;
  if (errno == ENOENT || errno == ENOTDIR || !error_.empty()) return;
  error_ = "cannot watch the folder " + folder + ": " + std::generic_category().message(errno);
}

// Sets errno if the system refuses, for example because this user has no instance left.
bool FileWatch::open() {
  if (events_.is_open()) return true;
  const int descriptor = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (descriptor < 0) return false;
  events_.assign(descriptor);
  read();
  return true;
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
  if (is_ours) wait_for_quiet(kQuiet);
}

void FileWatch::wait_for_quiet(std::chrono::milliseconds quiet) {
  quiet_.expires_after(quiet);
  quiet_.async_wait([this, quiet](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    watch_folders();
    Contents now = contents();
    if (now == known_) return;
    if (quiet < kGone && has_lost_a_file(now)) return wait_for_quiet(kGone);
    known_ = std::move(now);
    changed_();
  });
}

FileWatch::Contents FileWatch::contents() const {
  Contents all;
  for (const auto& [path, bytes] : known_) all[path] = bytes_of(path);
  return all;
}

bool FileWatch::has_lost_a_file(const Contents& now) const {
  return std::ranges::any_of(known_,
                             [&](const auto& file) { return file.second && !now.at(file.first); });
}

}  // namespace sluice
