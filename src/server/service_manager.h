#pragma once

#include <string_view>
#include <vector>

#include "net/address.h"

namespace sluice {

/// Tells the service manager that started this process, such as systemd, of its state: "READY=1",
/// "STOPPING=1" (see sd_notify(3)). Does nothing if the environment has no NOTIFY_SOCKET, or if the
/// socket cannot be reached.
void notify_service_manager(std::string_view state);

/// Tells it that the process reads its configuration again, until "READY=1".
void notify_reloading();

/// A socket that listens already.
struct PassedSocket {
  Address address;
  int descriptor = -1;
};

/// The listening sockets that the service manager has passed to this process (socket activation,
/// see sd_listen_fds(3)): descriptors from 3 on, as many as LISTEN_FDS says, if LISTEN_PID is this
/// process. Removes these variables. Throws ConfigError if one is not a stream socket that listens
/// at an IP address or a path. REQUIRES: no other thread uses the environment, which this changes.
std::vector<PassedSocket> take_passed_sockets();

}  // namespace sluice
