#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "core/exit_status.h"
#include "core/safe_text.h"
#include "server/check_options.h"
#include "server/config_error.h"
#include "server/config_file.h"
#include "server/listening.h"
#include "server/server_options.h"

namespace sluice {
namespace {

constexpr const char* kFooter =
    R"(Prints one line: what the file holds, or the first mistake in it, for which sluice serve
would refuse it. Warns of what is most likely a mistake.
Exit status: 0; 1 if the file has a mistake or cannot be read; 2 for invalid arguments.

Example:
  sluice check-config sluice.yaml)";

// On one line, whatever bytes the file has.
void say(std::string_view sentence) {
  std::cerr << "sluice: " << printable_sentence(sentence) << '\n';
}

int run(const std::string& path, bool insecure) {
  try {
    ServerOptions options = read_config_file(path);
    options.insecure = insecure;
    std::vector<Listening> listening;
    try {
      listening = read_addresses(options);
      make_tls_servers(listening);  // Reads the files for TLS.
      check_options(options);
      check_places(listening);
    } catch (const ConfigError& error) {
      throw ConfigError(path + ": " + error.what());
    }
    warn_of_options(options, listening,
                    [&](const LogEvent& warning) { say(path + ": " + warning.message); });
    std::cout << path << ": " << summary_of(options) << std::endl;
  } catch (const ConfigError& error) {
    say(error.what());
    return kFailed;
  }
  return 0;
}

}  // namespace

void add_check_config(CLI::App& app, std::function<int()>& chosen) {
  const auto path = std::make_shared<std::string>();
  const auto insecure = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("check-config", "Check the file of sluice serve --config.");
  command->footer(kFooter);
  command->add_option("file", *path, "The file")->type_name("FILE")->required();
  command->add_flag("--insecure", *insecure, "Allow what sluice serve --insecure allows");
  command->callback(
      [path, insecure, &chosen] { chosen = [path, insecure] { return run(*path, *insecure); }; });
}

}  // namespace sluice
