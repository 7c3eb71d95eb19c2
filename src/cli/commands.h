#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace sluice {

/// Each function declares a subcommand with its options in `app`. If the command line names the
/// subcommand, it sets `chosen` to a function that runs it and returns the exit code.
void add_advise(CLI::App& app, std::function<int()>& chosen);
void add_check_config(CLI::App& app, std::function<int()>& chosen);
void add_playground(CLI::App& app, std::function<int()>& chosen);
void add_replay(CLI::App& app, std::function<int()>& chosen);
void add_serve(CLI::App& app, std::function<int()>& chosen);
void add_token(CLI::App& app, std::function<int()>& chosen);

}  // namespace sluice
