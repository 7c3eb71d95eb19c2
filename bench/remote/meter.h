#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sluice::bench {

/// What work on a server costs: time, this process's CPU and the server's.
class Meter {
 public:
  /// Nanoseconds per decision; CPU that of all threads.
  struct Cost {
    double elapsed_ns = 0;
    double client_ns = 0;
    double server_ns = 0;
  };

  /// Throws std::system_error where there is no such process.
  explicit Meter(pid_t server);

  /// Runs `work`, which makes so many decisions.
  Cost measure(double decisions, const std::function<void()>& work) const;

 private:
  clockid_t server_clock_;
};

/// The figures of a benchmark: lists over its rounds, by name.
using Figures = std::map<std::string, std::vector<double>>;

/// Adds a round's cost: NAME is the time, "NAME, client" and "NAME, server" are the CPU.
void add_cost(Figures& figures, const std::string& name, const Meter::Cost& cost);

/// Prints them as one line of JSON.
void print_figures(const Figures& figures);

}  // namespace sluice::bench
