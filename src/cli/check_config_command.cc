#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "server/config_error.h"
#include "server/config_file.h"
#include "server/limits_file.h"

namespace sluice {
namespace {

constexpr const char* kFooter =
    R"(Prints one line: what the file holds, or the first mistake in it. Warns of each limit
whose rate is rounded noticeably.
Exit status: 0; 1 if the file has a mistake or cannot be read; 2 for invalid arguments.

Example:
  sluice check-config sluice.yaml)";

int run(const std::string& path) {
  try {
    const ConfigFile config = read_config_file(path);
    warn_of_rounding(config.limits.named, [&](const LogEvent& warning) {
      std::cerr << "sluice: " << path << ": " << warning.message << '\n';
    });
    std::cout << path << ": " << describe(config) << std::endl;
  } catch (const ConfigError& error) {
    std::cerr << "sluice: " << error.what() << '\n';
    return 1;
  }
  return 0;
}

}  // namespace

void add_check_config(CLI::App& app, std::function<int()>& chosen) {
  const auto path = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("check-config", "Check the file of sluice serve --config.");
  command->footer(kFooter);
  command->add_option("file", *path, "The file")->type_name("FILE")->required();
  command->callback([path, &chosen] { chosen = [path] { return run(*path); }; });
}

}  // namespace sluice
