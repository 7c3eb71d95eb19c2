#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <exception>
#include <iostream>
#include <optional>

#include "server/file_watch.h"
#include "server/server.h"
#include "server/service_manager.h"

namespace sluice {
namespace {

// In one piece, since other lines may be written at the same time.
void log(const std::string& line) {
  std::cerr << "sluice: " + line + "\n";
}

// That a store is connected at the start is not worth a line.
void log_store(const StoreEvent& event) {
  if (event.kind == StoreEvent::Kind::kUp && event.health.times_lost == 0) return;
  log(event.message);
}

// Has a snapshot written whenever the signal comes.
void await_snapshot_signal(boost::asio::signal_set& signals, Server& server) {
  signals.async_wait([&](const boost::system::error_code& error, int) {
    if (error) return;
    if (!server.write_snapshot()) log("there is no snapshot to write: no file is named for it");
    await_snapshot_signal(signals, server);
  });
}

/// Loads the options again, and serves as they say. Used by one thread.
class Reloader {
 public:
  Reloader(boost::asio::io_context& context, Server& server, const LoadOptions& load,
           const std::string& file, std::chrono::milliseconds drain)
      : server_(server),
        load_(load),
        hangups_(context, SIGHUP),
        watch_(context, file, [this] { reload(); }),
        drain_(drain) {
    await_hangup();
  }

  std::chrono::milliseconds drain() const { return drain_; }

 private:
  void await_hangup() {
    hangups_.async_wait([this](const boost::system::error_code& error, int) {
      if (error) return;
      watch_.note();
      reload();
      await_hangup();
    });
  }

  void reload() {
    try {
      const ServerOptions options = load_();
      server_.reload(options);
      drain_ = options.drain;
      std::cout << "sluice: reloaded: " + server_.description() << std::endl;
    } catch (const std::exception& error) {
      std::cerr << "sluice: not reloaded, all stays as it was: " + std::string(error.what()) + "\n";
    }
  }

  Server& server_;
  const LoadOptions& load_;
  boost::asio::signal_set hangups_;
  FileWatch watch_;
  std::chrono::milliseconds drain_;
};

}  // namespace

void run_server(const LoadOptions& load, const std::string& file) {
  boost::asio::io_context context;
  boost::asio::signal_set signals(context, SIGTERM, SIGINT);
  boost::asio::signal_set snapshot_signals(context, SIGUSR1);
  ServerOptions options = load();
  options.observe_store = log_store;
  options.say = log;
  Server server(options);
  std::optional<Reloader> reloader;
  if (!file.empty()) reloader.emplace(context, server, load, file, options.drain);
  server.start();
  std::cout << "sluice: " + server.description() << std::endl;
  notify_service_manager("READY=1");
  await_snapshot_signal(snapshot_signals, server);
  signals.async_wait([&](const boost::system::error_code&, int) { context.stop(); });
  context.run();
  // From here on a signal does what it does to any program: it ends it.
  signals.clear();
  notify_service_manager("STOPPING=1");
  server.stop(reloader ? reloader->drain() : options.drain);
}

}  // namespace sluice
