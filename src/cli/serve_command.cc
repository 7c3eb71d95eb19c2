#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/server_process.h"
#include "core/limit_syntax.h"
#include "server/config_file.h"
#include "server/limits_file.h"
#include "server/log.h"
#include "server/protocols.h"
#include "server/server.h"

namespace sluice {
namespace {

constexpr std::size_t kMostConnections = 1'000'000;

constexpr const char* kServeFooter =
    R"(The file of --config is YAML (docs/configuration.md); its smallest form:
  limits:
    login: sliding_log 5/10m
    api: token_bucket 100/1s burst=200
--limits takes a file with these alone. Options that are given here win over the file.

The URL of --store is memory: with options, as in 'memory:?max_bytes=16777216&full=allow':
  max_bytes=N      the most bytes for all states together (default 1 GiB, at least 1 MiB)
  full=deny|allow  denies a new key that finds no room (default), or admits it without recording it
or that of servers which several processes share (docs/redis.md, docs/memcached.md):
  redis://127.0.0.1:6379  rediss://  valkey://  valkeys://  redis+sentinel://  redis+cluster://
  unix://  memcached://

On SIGHUP, and when they change, the server reads its file and those for TLS again.

On SIGTERM or SIGINT it stops within 5 s (drain, in the file): GET /readyz says 503, and
each connection is closed after its next reply. When all are closed, or half of that time is over,
it accepts no more, reads each connection once more (64 KiB at most), replies while there is time,
and ends. A second signal, or one before it serves, ends it at once. The snapshot (--snapshot, or
in the file) is written at the end, and on SIGUSR1. See docs/restart.md.
Exit status: 0; 1 if it cannot start, for example because it cannot listen on an address, or cannot
write the last snapshot; 2 for invalid arguments, or a file that has a mistake or cannot be used.

Example:
  sluice serve --resp 127.0.0.1:6380 --http 127.0.0.1:8080 --limits limits.yaml
  redis-cli -p 6380 CL.THROTTLE user 15 30 60
  curl 'http://127.0.0.1:8080/auth?limit=token_bucket+2/1s&key=user')";

/// What the command line says.
struct CommandLine {
  ServerOptions options;
  std::string config_file;
  std::string limits_file;
  // By the protocol's name: where it is served.
  std::map<std::string, std::vector<std::string>> addresses;
  // Which of the options that a file can name, too, were given.
  std::map<std::string, CLI::Option*> address_options;
  const CLI::Option* store = nullptr;
  std::string snapshot_every;
  // Empty where they are not given.
  std::string log_format;
  std::string log_level;
};

/// Throws ConfigError.
std::chrono::nanoseconds read_snapshot_every(const std::string& text) {
  try {
    const std::chrono::nanoseconds every(parse_duration(text, 0, text.size()));
    if (every >= kLeastSnapshotEvery && every <= kMostSnapshotEvery) return every;
  } catch (const InvalidLimit&) {
  }
  throw ConfigError("--snapshot-every must be a duration from 1s to 1d, like 30s or 5m");
}

template <class Enum>
Enum chosen_of(std::span<const std::string_view> names, const std::string& name, Enum otherwise) {
  if (name.empty()) return otherwise;
  return static_cast<Enum>(std::ranges::find(names, name) - names.begin());
}

/// These options, where the command line does not say others.
LogOptions log_options_of(const CommandLine& line, LogOptions options) {
  options.format = chosen_of(kLogFormats, line.log_format, options.format);
  options.level = chosen_of(kLogLevels, line.log_level, options.level);
  return options;
}

/// What the files say, where the command line does not say it. Throws ConfigError.
ServerOptions read_options(const CommandLine& line) {
  ServerOptions options =
      line.config_file.empty() ? ServerOptions() : read_config_file(line.config_file);
  const ServerOptions& given = line.options;
  for (const auto& [protocol, option] : line.address_options) {
    if (option->empty()) continue;
    const std::vector<std::string>& addresses = line.addresses.at(protocol);
    options.addresses[protocol] = {addresses.begin(), addresses.end()};
  }
  if (!line.limits_file.empty()) options.limits.named = read_limits_file(line.limits_file);
  if (!line.store->empty()) options.store = given.store;
  if (!given.tls.certificate.empty()) options.tls = given.tls;
  if (!given.snapshot.file.empty()) options.snapshot = given.snapshot;
  if (!line.snapshot_every.empty()) {
    options.snapshot.every = read_snapshot_every(line.snapshot_every);
    if (options.snapshot.file.empty()) {
      throw ConfigError("--snapshot-every: no file is named for the snapshot (--snapshot)");
    }
  }
  options.threads = given.threads;
  options.insecure = given.insecure;
  options.max_connections = given.max_connections;
  options.log = log_options_of(line, options.log);
  return options;
}

int run(const CommandLine& line) {
  const auto log = std::make_shared<Log>(unlocked_standard_error());
  // What the file says is not known yet, and may be what cannot be read.
  log->configure(log_options_of(line, {}));
  const std::string& file = line.config_file.empty() ? line.limits_file : line.config_file;
  return run_server_process([&line] { return read_options(line); }, file, log);
}

void add_log_options(CLI::App& command, CommandLine& line) {
  const auto add = [&](const std::string& name, std::string& value, const std::string& description,
                       std::span<const std::string_view> names) {
    const std::vector<std::string> all(names.begin(), names.end());
    command.add_option(name, value, description + " [" + all.front() + "]")
        ->type_name(CLI::detail::join(all, "|"))
        ->check(CLI::IsMember(all).description(""));
  };
  add("--log-format", line.log_format, "How the lines on standard error are written", kLogFormats);
  add("--log-level", line.log_level, "Leave out lines below this level", kLogLevels);
}

void add_tls_options(CLI::App& command, TlsServerFiles& tls) {
  CLI::Option* const certificate =
      command
          .add_option("--tls-cert", tls.certificate,
                      "Speak TLS on all TCP addresses, with this certificate and its chain (PEM)")
          ->type_name("FILE");
  command.add_option("--tls-key", tls.key, "Its private key, if it is not in the same file")
      ->type_name("FILE")
      ->needs(certificate);
  command
      .add_option("--tls-client-ca", tls.client_ca,
                  "Serve only clients with a certificate that one of these authorities has signed")
      ->type_name("FILE")
      ->needs(certificate);
}

}  // namespace

void add_serve(CLI::App& app, std::function<int()>& chosen) {
  const auto line = std::make_shared<CommandLine>();
  ServerOptions& options = line->options;
  CLI::App* command = app.add_subcommand("serve", "Serve decisions to other processes.");
  command->footer(kServeFooter);
  CLI::Option* config =
      command->add_option("--config", line->config_file, "The server's configuration")
          ->type_name("FILE");
  for (const ServedProtocol& protocol : protocols()) {
    std::vector<std::string>& addresses = line->addresses[protocol.name];
    if (*protocol.default_address != '\0') addresses.emplace_back(protocol.default_address);
    CLI::Option*& option = line->address_options[protocol.name];
    option = command
                 ->add_option("--" + std::string(protocol.name), addresses,
                              "Serve " + std::string(protocol.title) +
                                  " on this address; may be given several times; port 0 is any "
                                  "free one")
                 ->type_name("ADDRESS:PORT|unix:PATH")
                 ->allow_extra_args(false);
    if (!addresses.empty()) option->capture_default_str();
  }
  command
      ->add_option("--threads", options.threads,
                   "Threads of the server, at most " + std::to_string(kMaxThreads) +
                       " (default: one per core)")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, kMaxThreads).description(""));
  command->add_option("--limits", line->limits_file, "Named limits")
      ->type_name("FILE")
      ->excludes(config);
  line->store = command->add_option("--store", options.store, "The store for the limits' states")
                    ->type_name("URL")
                    ->capture_default_str();
  command
      ->add_option("--snapshot", options.snapshot.file,
                   "Keep the states of the store memory: in this file, and load them at the start")
      ->type_name("FILE");
  command
      ->add_option("--snapshot-every", line->snapshot_every,
                   "How often the snapshot is written, from 1s to 1d [1m]")
      ->type_name("DURATION");
  add_tls_options(*command, options.tls);
  add_log_options(*command, *line);
  command->add_flag("--insecure", options.insecure,
                    "Allow addresses that other machines can reach, without users or certificates");
  command
      ->add_option("--max-connections", options.max_connections,
                   "The most connections at a time; further ones are refused")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, kMostConnections).description(""))
      ->capture_default_str();
  command->callback([line, &chosen] { chosen = [line] { return run(*line); }; });
}

}  // namespace sluice
