#include <CLI/CLI.hpp>
#include <exception>
#include <functional>
#include <iostream>
#include <string>

#include "cli/commands.h"

namespace {

constexpr int kMisused = 2;

/// Declares the options of a subcommand, which sets `chosen` to its action when the user names it.
using AddCommand = void (*)(CLI::App& app, std::function<int()>& chosen);

constexpr AddCommand kCommands[] = {
    sluice::add_replay,       sluice::add_advise,     sluice::add_serve,
    sluice::add_check_config, sluice::add_playground, sluice::add_token,
};

int run(int argc, char** argv) {
  CLI::App app("Sluice is a rate limiter: it decides which requests may go ahead now.", "sluice");
  app.set_version_flag("--version", "sluice " SLUICE_VERSION);
  app.require_subcommand(0, 1);
  std::function<int()> chosen;
  for (const AddCommand add : kCommands) add(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::cerr << "sluice: " << error.what() << " (sluice --help says more)\n";
    return kMisused;
  }
  if (chosen) return chosen();
  std::cerr << "sluice: a subcommand is missing (sluice --help lists them)\n";
  return kMisused;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "sluice: " << error.what() << '\n';
    return 1;
  }
}
