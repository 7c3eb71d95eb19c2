#pragma once

namespace sluice {

/// Exit statuses of the commands: the system, a store or a file did not give what was needed; and
/// invalid arguments, or for the server a mistake in its file.
inline constexpr int kFailed = 1;
inline constexpr int kMisused = 2;

}  // namespace sluice
