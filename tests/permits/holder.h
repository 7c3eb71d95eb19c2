#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

namespace sluice::permits {

/// Whom a process takes permits from.
struct Source {
  std::string url;
  std::string limit = "concurrency 1 lease=2s";
  std::string name = "jobs";
  std::string key = "k";
};

/// A process of its own that takes permits (see holder_main.cc). It is killed when this goes. One
/// thread at a time. Throws std::runtime_error where the process does not say what is expected
/// within half a minute.
class Holder {
 public:
  explicit Holder(const Source& source);
  ~Holder();
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  /// Tells it something.
  void tell(const std::string& line);
  /// The next line it says.
  std::string hear();
  /// The next line it says, which begins with this word; what follows it.
  std::string hear(const std::string& word);
  /// The same, where a time follows.
  std::chrono::nanoseconds hear_time(const std::string& word);

  void kill();    // SIGKILL
  void pause();   // SIGSTOP
  void resume();  // SIGCONT
  /// Ends its input, and waits until it has gone; how it ended, as waitpid() says it.
  int finish();

 private:
  void signal(int number) const;

  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string heard_;
};

}  // namespace sluice::permits
