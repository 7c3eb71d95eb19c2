// sluice_load: loads a RESP server and checks every reply. Exits with 0 if all were right, 1 at the
// first wrong one or lost connection, 2 if the command line is invalid.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "load/generator.h"

namespace {

using sluice::bench::Generator;
using sluice::bench::RunResult;

bool run_once(Generator* generator) {
  const RunResult result = generator->run();
  if (!result.error.empty()) {
    std::fprintf(stderr, "sluice_load: %s (after %llu right replies)\n", result.error.c_str(),
                 static_cast<unsigned long long>(result.requests));
    return false;
  }
  std::printf(
      "{\"requests\":%llu,\"seconds\":%.6f,\"requests_per_second\":%.0f,"
      "\"p50_us\":%.1f,\"p99_us\":%.1f}\n",
      static_cast<unsigned long long>(result.requests), result.seconds,
      static_cast<double>(result.requests) / result.seconds,
      static_cast<double>(result.latency.quantile_ns(0.50)) / 1e3,
      static_cast<double>(result.latency.quantile_ns(0.99)) / 1e3);
  std::fflush(stdout);
  return true;
}

bool run_on_demand(Generator* generator) {
  std::puts("ready");
  std::fflush(stdout);
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c == '\n' && !run_once(generator)) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<sluice::bench::LoadOptions> options = sluice::bench::parse_options(argc, argv);
  if (!options) return 2;
  options->now_us = std::chrono::duration_cast<std::chrono::microseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
  Generator generator(*options);
  const std::string error = generator.connect_all();
  if (!error.empty()) {
    std::fprintf(stderr, "sluice_load: %s\n", error.c_str());
    return 1;
  }
  const bool right = options->on_demand ? run_on_demand(&generator) : run_once(&generator);
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
