#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/config_error.h"
#include "server/log.h"
#include "server/served_address.h"
#include "server/service_manager.h"
#include "server/snapshot_keeper.h"
#include "service/access.h"
#include "service/served_limits.h"
#include "service/server_context.h"

namespace sluice {

/// Each protocol on its default address.
ServedAddresses default_addresses();

struct ServerOptions {
  ServedAddresses addresses = default_addresses();
  /// Sockets for some of these addresses, used instead of opening others. They stay open.
  std::vector<PassedSocket> passed_sockets = {};
  /// For the TCP addresses that name none themselves; without a certificate, TLS is not spoken.
  TlsServerFiles tls = {};
  /// 1 to kMaxThreads; 0: one for each core this process may use, up to that.
  std::size_t threads = 0;
  std::string store = "memory:";
  ServedLimits limits = {};
  std::vector<User> users = {};
  ClientRules client_rules = {};
  /// Addresses that other machines reach are allowed without users or
  /// certificates of the clients.
  bool insecure = false;
  /// At least 1. One more is refused.
  std::size_t max_connections = 10'000;
  /// How long the server sends pending replies when it stops.
  std::chrono::milliseconds drain{5'000};
  /// For a memory store.
  SnapshotOptions snapshot = {};
  LogOptions log = {};
};

/// Each thread remembers limits of its own and holds them in the store (limit_registry.h): together
/// at most half of what a store can keep apart.
inline constexpr std::size_t kMaxThreads = 64;

/// How long silent connections are waited for when the server stops, if other clients wait at its
/// sockets for the next process meanwhile.
inline constexpr std::chrono::milliseconds kHandOver{200};

/// A server made of its parts: a store, the protocols over it, listeners and threads. The members
/// are called from one thread at a time.
class Server {
 public:
  /// Opens the store, loads its snapshot, opens the limits in it, and listens. `log` is given what
  /// happens from now on, on any thread. Throws ConfigError;
  /// ListenError or std::system_error where the system does not give what it needs; StoreError.
  explicit Server(
      const ServerOptions& options, LogFunction log = [](const LogEvent&) {});
  /// Stops without grace.
  ~Server();

  /// What is served where, in one line: "serving RESP on 127.0.0.1:6380 (2 threads, 0
  /// named limits, memory:)".
  std::string description() const;

  /// Where the server listens, with the real port, at the `i`-th of its options' addresses: these
  /// are numbered from 0 through the protocols, which are in the order of their names.
  std::string address(std::size_t i) const;

  /// Reads the files for TLS again, for new connections. Returns false if there are none. Throws
  /// ConfigError where some cannot be used; then nothing has changed.
  bool reload_certificates();

  /// Gives the log a warning for each address whose certificate ends soon: certificate_warnings().
  void warn_of_certificates();

  /// Serves from now on, on threads of its own. REQUIRES: called once.
  void start();

  /// Serves as these options say from now on: their addresses, with certificates that are read
  /// again, and their limits, whose states and counts go on where the names are the same. Addresses
  /// that were served before stay open; who is a user no longer has no rights from the next request
  /// on. Throws as the constructor does, and ConfigError where the store or its snapshot would be
  /// others; then nothing has changed. All other options stay as they were. REQUIRES: start() was
  /// called, stop() was not.
  void reload(const ServerOptions& options);

  /// Counts for the metrics that the server has taken what its files say, or has not.
  void count_reload(bool succeeded);

  /// Stops within `grace`. At first /readyz says that the server is draining, and each connection
  /// is closed after its next reply; new ones are still accepted, except from sockets that were
  /// passed, where they wait for the next process. When all are closed, or half of the time is over
  /// (kHandOver if there are such sockets), no more are accepted, and each connection is answered
  /// what one more read of it brings (64 KiB), and closed. In the last quarter no reply is begun,
  /// so that those that have been begun are sent whole. What clients have sent beyond that is not
  /// answered.
  ///
  /// Then writes the snapshot, if one is kept. REQUIRES: start() was called; called once.
  void stop(std::chrono::milliseconds grace);

  /// Has the snapshot written. Returns at once; false if none is kept.
  bool write_snapshot();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Says in each call what to serve: reads the files again. Throws ConfigError.
using LoadOptions = std::function<ServerOptions()>;

/// Serves until SIGTERM or SIGINT, then stops within `drain`; a second signal ends the process at
/// once. SIGUSR1 has the snapshot written. Writes what happens to `log`. Throws as Server does.
/// REQUIRES: called from the only thread, since the threads inherit its signals.
/// On SIGHUP, and when `file` has changed, it loads the options again and goes on with them; where
/// they cannot be served, it says why and goes on as before. A change while the server starts is
/// taken, too. `file` may be empty: then SIGHUP has the files for TLS read again. Calls `started`
/// when it serves.
void run_server(
    const LoadOptions& load, const std::string& file, const std::shared_ptr<Log>& log,
    const std::function<void(const Server&)>& started = [](const Server&) {});

}  // namespace sluice
