#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sluice::bench {

/// Measures the cost of work on a server: time, this process's CPU and the server's CPU.
class Meter {
 public:
  /// Nanoseconds per decision; CPU of all threads.
  struct Cost {
    double elapsed_ns = 0;
    double client_ns = 0;
    double server_ns = 0;
  };

  /// Throws std::system_error if there is no such process.
  explicit Meter(pid_t server);

  /// Runs and measures `work`, which makes `decisions` decisions.
  Cost measure(double decisions, const std::function<void()>& work) const;

 private:
  clockid_t server_clock_;
};

/// The figures of a benchmark by name: lists over its rounds.
using Figures = std::map<std::string, std::vector<double>>;

/// Adds the cost of a round: NAME is the time, "NAME, client" and "NAME, server" are the CPU.
void add_cost(Figures& figures, const std::string& name, const Meter::Cost& cost);

/// Prints them as one line of JSON.
void print_figures(const Figures& figures);

/// An argument of a benchmark. Throws std::invalid_argument unless it is from 1 to 100,000,000.
std::uint64_t number_argument(const char* text);

}  // namespace sluice::bench
