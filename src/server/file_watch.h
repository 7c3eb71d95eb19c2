#pragma once

// Includes Boost.Asio, which compiles slowly: to be included by .cc files of this module only.

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <optional>
#include <set>
#include <string>

namespace sluice {

/// Tells when a file has changed: when it has been written or replaced, itself or what a symbolic
/// link in its place leads to, also where that is by way of `..data` in its folder, as in a mounted
/// ConfigMap; and then has been left alone for kQuiet. Says nothing where its bytes are the same.
class FileWatch {
 public:
  static constexpr std::chrono::milliseconds kQuiet{100};

  /// `changed` is called by the threads that run the context. Does not watch where the system
  /// refuses.
  FileWatch(boost::asio::io_context& context, std::string path, std::function<void()> changed);

  /// The bytes of this time are known: they are no change.
  void note() { known_ = bytes_of_file(); }

 private:
  void watch();
  void read();
  void on_events(std::size_t bytes);
  void wait_for_quiet();
  std::optional<std::string> bytes_of_file() const;

  const std::string path_;
  const std::function<void()> changed_;
  boost::asio::posix::stream_descriptor events_;
  boost::asio::steady_timer quiet_;
  alignas(8) std::array<char, 16 * 1024> buffer_;
  std::set<std::string> names_;  // Of the entries of the folders that matter.
  std::optional<std::string> known_;
};

}  // namespace sluice
