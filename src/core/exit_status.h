#pragma once

namespace sluice {

/// Exit statuses of the commands: the system, a store or a file did not give what was needed; and
/// invalid arguments, or for the server a file that has a mistake or cannot be used.
inline constexpr int kFailed = 1;
inline constexpr int kMisused = 2;

}  // namespace sluice
