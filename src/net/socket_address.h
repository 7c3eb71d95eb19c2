#pragma once

#include <sys/un.h>

#include <cstddef>

namespace sluice {

/// The longest path of a socket.
inline constexpr std::size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace sluice
