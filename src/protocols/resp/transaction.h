#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::resp {

/// The commands that a connection has queued since MULTI, as they were sent. Not thread-safe.
class Transaction {
 public:
  static constexpr std::size_t kMaxCommands = 1'000;
  static constexpr std::size_t kMaxBytes = 128 * 1024;
  /// EXEC runs no further command once the replies have more bytes.
  static constexpr std::size_t kMaxReplyBytes = 1024 * 1024;

  /// Queues a command. If that would exceed a bound, returns false and does not queue it.
  bool add(std::string_view command) {
    if (commands_ == kMaxCommands || command.size() > kMaxBytes - bytes_.size()) return false;
    bytes_ += command;
    ++commands_;
    return true;
  }

  /// A command could not be queued: EXEC will run none.
  void abort() {
    clear();
    aborted_ = true;
  }
  bool is_aborted() const { return aborted_; }

  std::size_t held_bytes() const { return bytes_.capacity(); }

  /// Commands queued.
  std::size_t size() const { return commands_; }

  /// The commands that EXEC has not run yet, one after the other.
  std::string_view rest() const { return std::string_view(bytes_).substr(run_bytes_); }
  /// The first command of the rest, of so many bytes, has been run.
  void advance(std::size_t bytes) {
    run_bytes_ += bytes;
    ++run_commands_;
  }
  /// Commands of the rest.
  std::size_t rest_size() const { return commands_ - run_commands_; }

  /// Forgets the commands, and frees their memory.
  void clear() {
    std::string().swap(bytes_);
    run_bytes_ = 0;
    commands_ = 0;
    run_commands_ = 0;
    aborted_ = false;
  }

 private:
  std::string bytes_;
  std::size_t run_bytes_ = 0;
  std::size_t commands_ = 0;
  std::size_t run_commands_ = 0;
  bool aborted_ = false;
};

}  // namespace sluice::resp
