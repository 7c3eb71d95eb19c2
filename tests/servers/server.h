#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "servers/temporary_folder.h"

namespace sluice::servers {

/// A program that serves on a port of 127.0.0.1, in a folder of its own. It is killed when this is
/// destroyed, and by the system when the thread that started it ends: start it on a thread that
/// lives long enough.
///
/// Whatever does not happen within kPatience throws std::runtime_error with the program's log. One
/// thread at a time.
class Server {
 public:
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const { return port_; }
  /// -1 while it does not run.
  pid_t pid() const { return pid_; }
  const std::filesystem::path& folder() const { return folder_.path(); }
  /// All that the program has said, in all its runs.
  std::string log() const;

  /// Asks it to end (SIGTERM), and waits for that.
  void stop();
  /// Ends it with no warning (SIGKILL).
  void kill();
  /// Stands still from here on: connections are accepted by the system, nobody answers.
  void pause();
  void resume();
  /// Kills it where it still runs and starts it again on the same port. Returns once it answers.
  void restart();

 protected:
  explicit Server(std::uint16_t port) : port_(port) {}
  virtual ~Server();

  /// Runs the command and returns once it answers.
  void start(std::vector<std::string> command);

 private:
  /// Whether it can be asked by now. Throws where it cannot.
  virtual bool answers() = 0;

  void launch();
  void await_answer();
  bool has_ended();
  [[noreturn]] void fail(const std::string& what) const;

  TemporaryFolder folder_;
  std::uint16_t port_;
  std::vector<std::string> command_;
  pid_t pid_ = -1;
};

}  // namespace sluice::servers
