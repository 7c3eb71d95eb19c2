#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/server_process.h"
#include "server/log.h"
#include "server/server.h"

namespace sluice {
namespace {

constexpr const char* kPlaygroundFooter =
    R"(Serves one web page on this machine, and prints its address: choose or draw requests over
time, write limits, and see what each decides. The address bar holds the experiment. No request of
the page leaves the machine. Ends on SIGTERM, SIGINT or SIGHUP.

Example:
  sluice playground --port 8088)";

int run_playground(const std::string& address) {
  const auto log = std::make_shared<Log>(unlocked_standard_error());
  const LogOptions quiet{.level = LogLevel::kError};
  log->configure(quiet);
  const auto load = [&] {
    ServerOptions options;
    options.addresses = {{"http", {ServedAddress(address)}}};
    options.threads = 1;
    options.log = quiet;
    return options;
  };
  // There is no file to read again on SIGHUP: it ends the process, as when a terminal is closed,
  // unless the caller has had it ignored (nohup).
  struct sigaction on_hangup {};
  ::sigaction(SIGHUP, nullptr, &on_hangup);
  return run_server_process(load, "", log, [&](const Server& server) {
    ::sigaction(SIGHUP, &on_hangup, nullptr);
    std::cout << "the playground: http://" << server.address(0) << "/playground" << std::endl;
  });
}

}  // namespace

void add_playground(CLI::App& app, std::function<int()>& chosen) {
  const auto port = std::make_shared<int>(0);
  CLI::App* command = app.add_subcommand("playground", "Try limits on a web page of this machine.");
  command->footer(kPlaygroundFooter);
  command->add_option("--port", *port, "The page's port; 0 is any free one")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535).description(""))
      ->capture_default_str();
  command->callback([port, &chosen] {
    chosen = [port] { return run_playground("127.0.0.1:" + std::to_string(*port)); };
  });
}

}  // namespace sluice
