#include "remote/meter.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

namespace sluice::bench {
namespace {

double read_ns(clockid_t clock) {
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot read a process's CPU time");
  }
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

}  // namespace

Meter::Meter(pid_t server) : server_clock_(0) {
  if (const int error = ::clock_getcpuclockid(server, &server_clock_); error != 0) {
    throw std::system_error(error, std::generic_category(), "cannot watch the server's process");
  }
}

Meter::Cost Meter::measure(double decisions, const std::function<void()>& work) const {
  const double elapsed = read_ns(CLOCK_MONOTONIC);
  const double client = read_ns(CLOCK_PROCESS_CPUTIME_ID);
  const double server = read_ns(server_clock_);
  work();
  return {.elapsed_ns = (read_ns(CLOCK_MONOTONIC) - elapsed) / decisions,
          .client_ns = (read_ns(CLOCK_PROCESS_CPUTIME_ID) - client) / decisions,
          .server_ns = (read_ns(server_clock_) - server) / decisions};
}

void add_cost(Figures& figures, const std::string& name, const Meter::Cost& cost) {
  figures[name].push_back(cost.elapsed_ns);
  figures[name + ", client"].push_back(cost.client_ns);
  figures[name + ", server"].push_back(cost.server_ns);
}

void print_figures(const Figures& figures) {
  const char* between = "{";
  for (const auto& [name, values] : figures) {
    std::printf("%s\"%s\":", between, name.c_str());
    char before = '[';
    for (const double value : values) {
      std::printf("%c%.3f", before, value);
      before = ',';
    }
    std::printf("]");
    between = ",";
  }
  std::puts("}");
}

std::uint64_t number_argument(const char* text) {
  const unsigned long long value = std::strtoull(text, nullptr, 10);
  if (value < 1 || value > 100'000'000) {
    throw std::invalid_argument("'" + std::string(text) + "' is no number from 1 to 100000000");
  }
  return value;
}

}  // namespace sluice::bench
