#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "servers/temporary_folder.h"

namespace sluice::servers {

/// A server program on a port of 127.0.0.1, in a separate folder. It is killed when this is
/// destroyed, and by the system when the thread that started it ends; so start it on a thread that
/// lives long enough.
///
/// A function that takes longer than kPatience throws std::runtime_error with the program's log.
/// Not thread-safe.
class Server {
 public:
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const { return port_; }
  /// That of the store whose only server it is.
  virtual std::string url() const = 0;
  /// How many connections it has accepted since it was started.
  virtual long connections_ever() const = 0;
  /// -1 while it is not running.
  pid_t pid() const { return pid_; }
  const std::filesystem::path& folder() const { return folder_.path(); }

  /// Kills it (SIGKILL).
  void kill();
  /// Suspends it (SIGSTOP): the system accepts connections, but the server does not answer.
  void pause();
  void resume();
  /// Kills it if it is running, and starts it again on the same port. Returns once it answers.
  void restart();

 protected:
  explicit Server(std::uint16_t port) : port_(port) {}
  virtual ~Server();

  /// Runs the command and returns once it answers.
  void start(std::vector<std::string> command);

 private:
  /// Whether the server answers requests. May throw if it does not.
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

/// Starts one of this kind.
template <class Kind>
std::shared_ptr<Server> start_server() {
  return std::make_shared<Kind>();
}

}  // namespace sluice::servers
