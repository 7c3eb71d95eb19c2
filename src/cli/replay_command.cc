#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "cli/log_options.h"
#include "replay/replay.h"

namespace sluice {
namespace {

constexpr std::string_view kReplayFooter = R"(Limits:
  token_bucket 100/1s [burst=200] [borrow=yes|no]         leaky_bucket 10/1s queue=50
  fixed_window 5/1m [anchor=clock|first]                  sliding_log 5/10m
  sliding_window 1000/1h [precision=60s] [strict=yes|no]  sliding_counter 1000/1h
  concurrency 100 [lease=60s]: each line, of cost one, keeps its permit for the whole lease
  several joined by &, which must all admit (not concurrency)

Fields of a log for --key: ip ident user time method path protocol status bytes request vhost, and
in the combined format referer user_agent. For CSV the columns, for JSON Lines the top-level fields.
A log line may begin with its virtual host, as in Apache's vhost_combined; otherwise vhost is "-".

The requests are decided in the order of their times. One that comes after more than 50,000 later
ones is too late for its place; how many are is said on standard error. See docs/replay.md.

Exit status: 0; 1 if the input cannot be read or the output not be written; 2 for invalid arguments.

Examples:
  sluice replay access.log --limit 'token_bucket 10/1m' --limit 'sliding_log 5/1m'
  sluice replay access.log.2.gz access.log.1 --limit 'fixed_window 100/1h' --key '{ip} {path}')";

int run_replay_command(const replay::ReplayOptions& options) {
  const bool is_taken = options.decisions == "-" || options.html == "-";
  return replay::run_replay(options,
                            streams_for("replay", options.log.files, is_taken, options.is_json));
}

}  // namespace

void add_replay(CLI::App& app, std::function<int()>& chosen) {
  const auto options = std::make_shared<replay::ReplayOptions>();
  CLI::App* command = app.add_subcommand(
      "replay", "Decide the requests of a log at their logged times: which would be denied?");
  command->footer(std::string(kReplayFooter));
  command
      ->add_option("--limit", options->limits,
                   "A limit; may be given several times, each decides independently")
      ->type_name("EXPR")
      ->allow_extra_args(false);
  add_log_options(*command, options->log);
  command->add_option("--store", options->store, "The store for the replay")
      ->type_name("URL")
      ->capture_default_str();
  command
      ->add_option("--decisions", options->decisions,
                   "Write every decision as JSON Lines; - is standard output, and then the summary "
                   "goes to standard error")
      ->type_name("FILE");
  command
      ->add_option("--html", options->html,
                   "Write the report as a web page, one file; - is standard output, and then the "
                   "summary goes to standard error")
      ->type_name("FILE");
  command->add_flag("--plot", options->has_plot,
                    "Plot the denied requests of each limit over time, after the tables");
  command->add_flag("--json", options->is_json, "Print the summary as JSON");
  command->callback(
      [options, &chosen] { chosen = [options] { return run_replay_command(*options); }; });
}

}  // namespace sluice
