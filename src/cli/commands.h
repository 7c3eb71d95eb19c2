#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace sluice {

/// Each declares its subcommand with its options in `app`, and lets `chosen` run it when it is the
/// one on the command line. `chosen` returns the exit code.
void add_replay(CLI::App& app, std::function<int()>& chosen);
void add_serve(CLI::App& app, std::function<int()>& chosen);

}  // namespace sluice
