#pragma once

// Includes Boost.Asio, which compiles slowly: to be included by .cc files of this module only.

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace sluice {

/// Reports changes of files: one was written, replaced or removed, or so was one of the folders and
/// symbolic links that lead to it. Waits until none of the files has changed for kQuiet, and does
/// not report a change that leaves all bytes the same.
class FileWatch {
 public:
  static constexpr std::chrono::milliseconds kQuiet{100};
  /// A file that is not back after this time is reported as removed: some programs remove a file
  /// before they write it anew.
  static constexpr std::chrono::milliseconds kGone{1000};

  /// The threads that run the context call `changed`.
  FileWatch(boost::asio::io_context& context, std::function<void()> changed);

  /// Watches these files instead of the former ones. Takes the present bytes of a file as known,
  /// unless it was watched before: then those of that time.
  void watch(const std::set<std::string>& paths);

  /// Takes the present bytes as known: only other bytes are a change.
  void note();

  /// Why some changes are not reported: the first folder that the system has refused to watch when
  /// the files were named or have changed last. Empty if it watches all.
  const std::string& error() const { return error_; }

 private:
  /// By path, what is in the file; nothing where it cannot be read, or is no regular file.
  using Contents = std::map<std::string, std::optional<std::string>>;

  void watch_folders();
  void watch_folders_of(const std::string& file);
  void watch_folder(const std::string& folder);
  bool open();
  void read();
  void on_events(std::size_t bytes);
  void wait_for_quiet(std::chrono::milliseconds quiet);
  Contents contents() const;
  bool has_lost_a_file(const Contents& now) const;

  const std::function<void()> changed_;
  boost::asio::posix::stream_descriptor events_;
  boost::asio::steady_timer quiet_;
  alignas(8) std::array<char, 16 * 1024> buffer_;
  std::set<std::string> names_;  // Of the entries of the folders that matter.
  Contents known_;
  std::string error_;
};

}  // namespace sluice
