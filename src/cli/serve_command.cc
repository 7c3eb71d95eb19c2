#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "server/protocols.h"
#include "server/server.h"

namespace sluice {
namespace {

constexpr int kMisused = 2;
constexpr std::size_t kMostConnections = 1'000'000;

constexpr const char* kServeFooter = R"(The file of --limits is YAML:
  limits:
    login: sliding_log 5/10m
    api: token_bucket 100/1s burst=200

The URL of --store is memory: with options, as in 'memory:?max_bytes=16777216&full=allow':
  max_bytes=N      the most bytes for all states together (default 1 GiB, at least 1 MiB)
  full=deny|allow  denies a new key that finds no room (default), or admits it without recording it

On SIGTERM or SIGINT the server stops within 5 s: it reads each connection once more (64 KiB at
most), sends all replies, and closes. A second signal stops it at once.
Exit status: 0; 1 if it cannot listen on an address; 2 for invalid arguments.

Example:
  sluice serve --resp 127.0.0.1:6380 --limits limits.yaml
  redis-cli -p 6380 CL.THROTTLE user 15 30 60)";

int run(const ServerOptions& options) {
  try {
    run_server(options);
  } catch (const ConfigError& error) {
    std::cerr << "sluice: " << error.what() << '\n';
    return kMisused;
  }
  return 0;
}

}  // namespace

void add_serve(CLI::App& app, std::function<int()>& chosen) {
  const auto options = std::make_shared<ServerOptions>();
  CLI::App* command = app.add_subcommand("serve", "Serve decisions to other processes.");
  command->footer(kServeFooter);
  for (const ServedProtocol& protocol : protocols()) {
    command
        ->add_option("--" + std::string(protocol.name), options->addresses[protocol.name],
                     "Serve " + std::string(protocol.title) +
                         " on this address; may be given several times; port 0 is any free one")
        ->type_name("ADDRESS:PORT|unix:PATH")
        ->allow_extra_args(false)
        ->capture_default_str();
  }
  command
      ->add_option("--threads", options->threads,
                   "Threads of the server, at most " + std::to_string(kMaxThreads) +
                       " (default: one per core)")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, kMaxThreads).description(""));
  command->add_option("--limits", options->limits_file, "Named limits for SLUICE.CHECK")
      ->type_name("FILE");
  command->add_option("--store", options->store, "The store for the limits' states")
      ->type_name("URL")
      ->capture_default_str();
  command->add_flag("--insecure", options->insecure,
                    "Allow addresses that other machines can reach, without a password");
  command
      ->add_option("--max-connections", options->max_connections,
                   "The most connections at a time; further ones are refused")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, kMostConnections).description(""))
      ->capture_default_str();
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace sluice
