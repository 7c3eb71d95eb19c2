#pragma once

#include <string_view>

namespace sluice {

/// Tells the service manager that started this process, such as systemd, of its state: "READY=1",
/// "STOPPING=1" (see sd_notify(3)). Does nothing if the environment names no NOTIFY_SOCKET, or if
/// that cannot be reached.
void notify_service_manager(std::string_view state);

}  // namespace sluice
