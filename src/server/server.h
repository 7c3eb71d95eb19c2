#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "server/config_error.h"
#include "server/log.h"
#include "server/server_options.h"

namespace sluice {

/// How long the server waits for silent connections when it stops, if its sockets were passed:
/// other clients wait at these sockets for the next process.
inline constexpr std::chrono::milliseconds kHandOver{200};

/// The whole server: a store, the protocols over it, listeners and threads. Only one thread at a
/// time may call its members.
class Server {
 public:
  /// Opens the store, loads its snapshot, opens the limits in it, and listens. From now on any
  /// thread may call `log` with events. Throws ConfigError, StoreError, and ListenError or
  /// std::system_error if the system refuses something.
  explicit Server(
      const ServerOptions& options, LogFunction log = [](const LogEvent&) {});
  /// Stops at once.
  ~Server();

  /// The protocols, their addresses and the store, in one line: "serving RESP on 127.0.0.1:6380 (2
  /// threads, 0 named limits, memory:)".
  std::string description() const;

  /// Where the server listens, with the real port, at the `i`-th of its options' addresses: these
  /// are numbered from 0 through the protocols, which are in the order of their names.
  std::string address(std::size_t i) const;

  /// Logs a warning for what is most likely a mistake in the options that were taken last, which
  /// these are.
  void warn_of_options(const ServerOptions& options);

  /// Logs a warning for each address whose certificate ends soon, see certificate_warnings().
  void warn_of_certificates();

  /// Starts to serve, on threads of its own. REQUIRES: called once.
  void start();

  /// Takes the addresses, the limits, the users, the client rules, `log.slow` and max_client_bytes
  /// of these options, and reads the certificates again. Limits of the same name keep their states
  /// and counts; addresses that were served before stay open; a client that is no longer a user has
  /// no rights from its next request on. Throws as the constructor, and ConfigError if the store or
  /// its snapshot differ; then nothing that is served has changed. All other options stay as they
  /// were. Returns what has changed of the limits: see limit_changes(). REQUIRES: start() was
  /// called, stop() was not.
  std::string reload(const ServerOptions& options);

  /// Counts a reload for the metrics.
  void count_reload(bool succeeded);

  /// Stops within `grace`. At first /readyz says that the server is draining, and each connection
  /// is closed after its next reply; new ones are still accepted, except from sockets that were
  /// passed, where they wait for the next process. When all are closed, or half of the time is over
  /// (kHandOver if there are such sockets), no more are accepted. The server reads once more from
  /// each connection (64 KiB), answers what it has read, and closes the connection. In the second
  /// half of the time that is left then it begins no reply, so that those it has begun are sent
  /// whole. Further requests are not answered.
  ///
  /// Then writes the snapshot, if one is kept. Returns false if that failed. REQUIRES: start() was
  /// called; called once.
  bool stop(std::chrono::milliseconds grace);

  /// Requests that the snapshot is written, and returns at once; false if the server keeps none.
  bool write_snapshot();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Returns the options; each call reads the files again. Throws ConfigError.
using LoadOptions = std::function<ServerOptions()>;

/// Serves until SIGTERM or SIGINT, then stops within `drain`; a second signal, or one before it
/// serves, ends the process at once. On SIGUSR1 it writes the snapshot. Logs its events to `log`.
/// Throws as Server does. On SIGHUP, and when `file` or a file for TLS has changed, it loads the
/// options again and takes them; if they are invalid, it logs why and goes on as before. It also
/// takes a change that happens while the server starts. `file` may be empty. Calls `started` when
/// the server serves. Returns what Server::stop() does. REQUIRES: no other thread of the process
/// handles signals or uses the environment (see take_passed_sockets()); that of the log does
/// neither.
bool run_server(
    const LoadOptions& load, const std::string& file, const std::shared_ptr<Log>& log,
    const std::function<void(const Server&)>& started = [](const Server&) {});

}  // namespace sluice
