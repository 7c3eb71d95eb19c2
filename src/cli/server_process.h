#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/log.h"
#include "server/server.h"

namespace sluice {

/// run_server(), whose exceptions it writes to `log`. Returns the exit status of the program: 0; 1
/// if the system or the store did not give what the server needs; 2 for invalid options, or a file
/// that has a mistake or cannot be used.
int run_server_process(
    const LoadOptions& load, const std::string& file, const std::shared_ptr<Log>& log,
    const std::function<void(const Server&)>& started = [](const Server&) {});

}  // namespace sluice
