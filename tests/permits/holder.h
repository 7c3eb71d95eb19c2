#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "servers/server.h"
#include "servers/socket.h"

namespace sluice::permits {

/// The store on this server. A longer deadline, because Redis and Memcached under load may answer
/// late, which is not tested here.
inline std::string patient_url(const servers::Server& server) {
  return server.url() + "?deadline=20s&on_failure=raise";
}

/// The store and limit from which a process takes permits, all of one key.
struct Source {
  std::string url;
  /// Leases are renewed at a third, so a process that is held for four seconds keeps its permit.
  std::string limit = "concurrency 1 lease=6s";
};

/// A process of its own that takes permits (see holder_main.cc). It is killed when this is
/// destroyed. Only one thread at a time may use it. Throws std::runtime_error if the process does
/// not print the expected line within half a minute.
class Holder {
 public:
  explicit Holder(const Source& source);
  ~Holder();
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  /// Sends a line to its input.
  void tell(const std::string& line);
  /// The next line of its output.
  std::string hear();
  /// The rest of the next line of its output, which must begin with this word.
  std::string hear(const std::string& word);
  /// The same, as a time.
  std::chrono::nanoseconds hear_time(const std::string& word);

  /// Has it wait for a permit, and returns once it has one.
  void acquire();

  void kill();    // SIGKILL
  void pause();   // SIGSTOP
  void resume();  // SIGCONT
  /// Ends its input, and waits until it has ended. Returns its status as of waitpid().
  int finish();

 private:
  pid_t pid_ = -1;
  Peer peer_{UniqueFd()};  // What it writes to is its standard input, and its output is read from.
};

}  // namespace sluice::permits
