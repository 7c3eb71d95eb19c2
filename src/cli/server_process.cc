#include "cli/server_process.h"

#include <exception>

#include "core/exit_status.h"
#include "server/config_error.h"

namespace sluice {

int run_server_process(const LoadOptions& load, const std::string& file,
                       const std::shared_ptr<Log>& log,
                       const std::function<void(const Server&)>& started) {
  // Others may hold shares of the log when the process ends, so this waits for it.
  const auto end = [&](int status) {
    log->flush();
    return status;
  };
  const auto fail = [&](const std::exception& error, int status) {
    log->write({LogLevel::kError, "not_started", error.what()});
    return end(status);
  };
  try {
    return end(run_server(load, file, log, started) ? 0 : kFailed);
  } catch (const ConfigError& error) {
    return fail(error, kMisused);
  } catch (const std::exception& error) {
    return fail(error, kFailed);
  }
}

}  // namespace sluice
