#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "core/limit_syntax.h"
#include "server/file_watch.h"
#include "server/server.h"
#include "server/service_manager.h"

namespace sluice {
namespace {

// Has a snapshot written whenever the signal comes.
void await_snapshot_signal(boost::asio::signal_set& signals, Server& server, Log& log) {
  signals.async_wait([&](const boost::system::error_code& error, int) {
    if (error) return;
    if (!server.write_snapshot()) {
      log.write({LogLevel::kWarning, "no_snapshot_file",
                 "there is no snapshot to write: no file is named for it"});
    }
    await_snapshot_signal(signals, server, log);
  });
}

/// Loads the options again, and serves as they say. Used by one thread.
class Reloader {
 public:
  Reloader(boost::asio::io_context& context, Server& server, const LoadOptions& load,
           const std::string& file, std::chrono::milliseconds drain, Log& log)
      : server_(server),
        load_(load),
        log_(log),
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
    notify_reloading();
    try {
      const ServerOptions options = load_();
      server_.reload(options);
      drain_ = options.drain;
      log_.configure(options.log);
      log_.write({LogLevel::kInfo, "reloaded", "reloaded: " + server_.description()});
    } catch (const std::exception& error) {
      log_.write({LogLevel::kError, "not_reloaded",
                  "not reloaded, all stays as it was: " + std::string(error.what())});
    }
    notify_service_manager("READY=1");
  }

  Server& server_;
  const LoadOptions& load_;
  Log& log_;
  boost::asio::signal_set hangups_;
  FileWatch watch_;
  std::chrono::milliseconds drain_;
};

}  // namespace

void run_server(const LoadOptions& load, const std::string& file, const std::shared_ptr<Log>& log) {
  boost::asio::io_context context;
  boost::asio::signal_set signals(context, SIGTERM, SIGINT);
  boost::asio::signal_set snapshot_signals(context, SIGUSR1);
  ServerOptions options = load();
  log->configure(options.log);
  options.passed_sockets = take_passed_sockets();
  Server server(options, [log](const LogEvent& event) { log->write(event); });
  std::optional<Reloader> reloader;
  if (!file.empty()) reloader.emplace(context, server, load, file, options.drain, *log);
  server.start();
  log->write({LogLevel::kInfo, "serving", server.description()});
  notify_service_manager("READY=1");
  await_snapshot_signal(snapshot_signals, server, *log);
  signals.async_wait([&](const boost::system::error_code&, int) { context.stop(); });
  context.run();
  // From here on a signal does what it does to any program: it ends it.
  signals.clear();
  notify_service_manager("STOPPING=1");
  const std::chrono::milliseconds drain = reloader ? reloader->drain() : options.drain;
  log->write({LogLevel::kInfo,
              "stopping",
              "stopping within " + format_duration(std::chrono::nanoseconds(drain).count()),
              {{"drain_seconds", std::chrono::duration<double>(drain).count()}}});
  server.stop(drain);
  log->write({LogLevel::kInfo, "stopped", "stopped"});
}

}  // namespace sluice
