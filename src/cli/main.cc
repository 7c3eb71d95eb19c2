#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "core/exit_status.h"
#include "core/near_miss.h"
#include "core/safe_text.h"

namespace {

/// Declares the options of a subcommand, which sets `chosen` to its action when the user names it.
using AddCommand = void (*)(CLI::App& app, std::function<int()>& chosen);

constexpr AddCommand kCommands[] = {
    sluice::add_replay,       sluice::add_advise,     sluice::add_serve,
    sluice::add_check_config, sluice::add_playground, sluice::add_token,
};

// An empty value is a variable that is not set rather than a wish for the default.
void refuse_empty_values(CLI::App& app) {
  const CLI::Validator is_given(
      [](std::string& value) { return value.empty() ? "it is empty" : ""; }, "", "is_given");
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    for (CLI::Option* option : command->get_options()) {
      if (option->get_items_expected_max() != 0) option->check(is_given);
    }
  }
}

// What the user most likely meant by the first unexpected argument to which a name is near: an
// option of the subcommand, or a subcommand if none was named.
std::string suggest_argument(const CLI::App& app) {
  const std::vector<CLI::App*> named = app.get_subcommands();
  const CLI::App& command = named.empty() ? app : *named.front();
  std::vector<std::string> texts;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) texts.push_back("--" + name);
  }
  for (const CLI::App* each : command.get_subcommands([](const CLI::App*) { return true; })) {
    texts.push_back(each->get_name());
  }
  const std::vector<std::string_view> names(texts.begin(), texts.end());
  for (const std::string& argument : app.remaining(true)) {
    const std::string_view text = argument;
    std::string suggestion = sluice::suggest_name(text.substr(0, text.find('=')), names);
    if (!suggestion.empty()) return suggestion;
  }
  return "";
}

// Names the unexpected arguments in the order in which they were given. (CLI11 reverses it.) One
// may be the URL of a store, behind an option that is misspelt.
std::string describe_extras(const CLI::App& app) {
  std::vector<std::string> extras = app.remaining(true);
  for (std::string& extra : extras) extra = sluice::without_url(extra);
  const char* const beginning = extras.size() == 1 ? "The following argument was not expected: "
                                                   : "The following arguments were not expected: ";
  return beginning + CLI::detail::join(extras, " ");
}

// The arguments, in the reverse order, as CLI11 takes them. "help" and "help SUBCOMMAND" become the
// option --help of the program or of the subcommand.
std::vector<std::string> read_arguments(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments.front() == "help") {
    arguments.erase(arguments.begin());
    const auto is_named = [&](const CLI::App* each) { return each->get_name() == arguments[0]; };
    const bool is_known = arguments.empty() || !app.get_subcommands(is_named).empty();
    if (is_known) arguments.emplace_back("--help");
  }
  std::ranges::reverse(arguments);
  return arguments;
}

// Points to the help of the subcommand that was named, or to that of the program.
std::string help_hint(const CLI::App& app) {
  const std::vector<CLI::App*> named = app.get_subcommands();
  return " (sluice " + (named.empty() ? "" : named.front()->get_name() + " ") + "--help says more)";
}

// Where a standard descriptor is closed, the next file or connection would get its number, and with
// it all that is written to standard error. So it is opened, the wrong way round: using it fails.
void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

int run(int argc, char** argv) {
  CLI::App app("Sluice is a rate limiter: it decides which requests may go ahead now.", "sluice");
  app.set_version_flag("--version", "sluice " SLUICE_VERSION);
  app.require_subcommand(0, 1);
  std::function<int()> chosen;
  for (const AddCommand add : kCommands) add(app, chosen);
  refuse_empty_values(app);
  // Set last, since subcommands without a footer would inherit it.
  app.footer("sluice help SUBCOMMAND, or sluice SUBCOMMAND --help, lists its options.");
  try {
    app.parse(read_arguments(app, argc, argv));
  } catch (const CLI::Success& help) {
    chosen = [&app, help] { return app.exit(help); };
  } catch (const CLI::ExtrasError&) {
    std::cerr << "sluice: " << describe_extras(app) << suggest_argument(app) << help_hint(app)
              << '\n';
    return sluice::kMisused;
  } catch (const CLI::ParseError& error) {
    std::cerr << "sluice: " << sluice::without_url(error.what()) << help_hint(app) << '\n';
    return sluice::kMisused;
  }
  if (chosen) {
    const int status = chosen();
    if (status != 0 || std::cout << std::flush) return status;
    std::cerr << "sluice: standard output cannot be written\n";
    return sluice::kFailed;
  }
  std::cerr << "sluice: a subcommand is missing (sluice --help lists them)\n";
  return sluice::kMisused;
}

}  // namespace

int main(int argc, char** argv) {
  // A write beyond the size that the system allows a file fails, and does not end the process.
  std::signal(SIGXFSZ, SIG_IGN);
  occupy_standard_descriptors();
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "sluice: " << error.what() << '\n';
    return sluice::kFailed;
  }
}
