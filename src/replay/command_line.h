#pragma once

#include <string>

#include "replay/replay_options.h"

namespace sluice::replay {

/// The command with these options, quoted for a shell, without the password of the store's URL.
/// Options that have their default values are left out.
std::string command_line(const ReplayOptions& options);

}  // namespace sluice::replay
