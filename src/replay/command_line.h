#pragma once

#include <cstddef>
#include <string>

#include "replay/replay_options.h"

namespace sluice::replay {

/// The command with these options, quoted for a shell and safe for a terminal, without the password
/// of the store's URL. Options that have their default values are left out. It has at most
/// kMaxCommandBytes: what follows the last argument that fits becomes one ellipsis, which is no
/// file, so that the command fails.
std::string command_line(const ReplayOptions& options);

inline constexpr std::size_t kMaxCommandBytes = 10'000;

}  // namespace sluice::replay
