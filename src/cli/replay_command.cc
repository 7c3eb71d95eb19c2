#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "replay/replay.h"

namespace sluice {
namespace {

constexpr std::string_view kReplayFooter = R"(Limits:
  fixed_window 5/1m [anchor=clock|first]       sliding_log 5/10m
  sliding_window 1000/1h [precision=60s]       sliding_counter 1000/1h
  token_bucket 100/1s [burst=200]              leaky_bucket 10/1s queue=50
  concurrency 100 [lease=60s]: each line keeps its permit for the whole lease
  several joined by &, which must all admit (not concurrency)

Fields of a log for --key: ip ident user time method path protocol status bytes request vhost, and
in the combined format referer user_agent. For CSV the columns, for JSON Lines the top-level fields.
A log line may begin with its virtual host, as in Apache's vhost_combined; otherwise vhost is "-".

Exit status: 0; 1 if the input cannot be read or the output not be written; 2 for invalid arguments.

Examples:
  sluice replay access.log --limit 'token_bucket 10/1m' --limit 'sliding_log 5/1m'
  sluice replay logs/*.gz --limit 'fixed_window 100/1h' --key '{ip} {path}')";

const std::map<std::string, replay::Format> kFormats = {
    {"auto", replay::Format::kAuto},         {"common", replay::Format::kCommon},
    {"combined", replay::Format::kCombined}, {"csv", replay::Format::kCsv},
    {"jsonl", replay::Format::kJsonLines},
};

replay::Format format_of(const std::string& name) {
  const auto found = kFormats.find(name);
  if (found != kFormats.end()) return found->second;
  throw CLI::ValidationError("--format",
                             "\"" + name + "\" is none of auto, common, combined, csv, jsonl");
}

bool takes_colour(int descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return isatty(descriptor) == 1 && (no_colour == nullptr || *no_colour == '\0') &&
         terminal != nullptr && std::string_view(terminal) != "dumb";
}

int run(const replay::ReplayOptions& options) {
  if (options.files.empty() && isatty(STDIN_FILENO) == 1) {
    std::cerr << "sluice replay: reading standard input\n";
  }
  const int summary = options.decisions == "-" ? STDERR_FILENO : STDOUT_FILENO;
  return replay::run_replay(
      options, {.out = std::cout,
                .err = std::cerr,
                .is_coloured = !options.is_json && takes_colour(summary),
                .progress_descriptor = isatty(STDERR_FILENO) == 1 ? STDERR_FILENO : -1});
}

}  // namespace

void add_replay(CLI::App& app, std::function<int()>& chosen) {
  const auto options = std::make_shared<replay::ReplayOptions>();
  const auto key = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "replay", "Decide the requests of a log at their logged times: which would be denied?");
  command->footer(std::string(kReplayFooter));
  command
      ->add_option("file", options->files,
                   "Logs to read in this order, .gz too; none or - is standard input")
      ->type_name("FILE");
  command
      ->add_option("--limit", options->limits,
                   "A limit; may be given several times, each decides independently")
      ->type_name("EXPR")
      ->allow_extra_args(false);
  CLI::Option* key_option =
      command
          ->add_option("--key", *key,
                       "The key, with fields in braces: '{ip} {path}' (default: {ip} for logs, "
                       "{key} for CSV and JSON Lines)")
          ->type_name("TEMPLATE");
  command
      ->add_option_function<std::string>(
          "--format", [options](const std::string& name) { options->format = format_of(name); },
          "auto (the default), common, combined, csv or jsonl")
      ->type_name("FORMAT");
  command->add_option("--store", options->store, "The store for the replay")
      ->type_name("URL")
      ->capture_default_str();
  command
      ->add_option("--decisions", options->decisions,
                   "Write every decision as JSON Lines; - is standard output, and then the summary "
                   "goes to standard error")
      ->type_name("FILE");
  command->add_flag("--strict", options->is_strict, "Stop at the first line that cannot be read");
  command->add_flag("--json", options->is_json, "Print the summary as JSON");
  command->callback([options, key, key_option, &chosen] {
    if (key_option->count() > 0) options->key = *key;
    chosen = [options] { return run(*options); };
  });
}

}  // namespace sluice
