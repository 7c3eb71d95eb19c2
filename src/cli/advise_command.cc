#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "advise/advise.h"
#include "cli/commands.h"
#include "cli/log_options.h"

namespace sluice {
namespace {

constexpr std::string_view kAdviseFooter =
    R"(One pass over the log, in bounded memory. The requests are put into the order of their
times, as sluice replay does it.

Fields of a log for --key: ip ident user time method path protocol status bytes request vhost, and
in the combined format referer user_agent. For CSV the columns, for JSON Lines the top-level fields.
A log line may begin with its virtual host, as in Apache's vhost_combined; otherwise vhost is "-".

Exit status: 0; 1 if the input cannot be read or the output not be written; 2 for invalid arguments.

Examples:
  sluice advise access.log
  sluice advise access.log.2.gz access.log.1 --key '{user}' --json)";

int run_advise_command(const advise::AdviseOptions& options) {
  return advise::run_advise(
      options, streams_for("advise", options.log.files, options.html == "-", options.is_json));
}

}  // namespace

void add_advise(CLI::App& app, std::function<int()>& chosen) {
  const auto options = std::make_shared<advise::AdviseOptions>();
  CLI::App* command =
      app.add_subcommand("advise", "Read a log and say which limits would suit its traffic.");
  command->footer(std::string(kAdviseFooter));
  add_log_options(*command, options->log);
  command
      ->add_option("--html", options->html,
                   "Write the advice as a web page, one file; - is standard output, and then the "
                   "advice as text goes to standard error")
      ->type_name("FILE");
  command->add_flag("--json", options->is_json, "Print the advice as JSON");
  command->callback(
      [options, &chosen] { chosen = [options] { return run_advise_command(*options); }; });
}

}  // namespace sluice
