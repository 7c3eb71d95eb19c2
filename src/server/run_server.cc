#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <exception>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/limit_syntax.h"
#include "net/special_file.h"
#include "server/config_error.h"
#include "server/file_watch.h"
#include "server/server.h"
#include "server/service_manager.h"

namespace sluice {
namespace {

// From here on SIGTERM and SIGINT end the process at once, also where it is the first of a
// container: for that one the system ignores every signal without a handler.
void end_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int number) {
    std::raise(number);   // By default it ends the process,
    _exit(128 + number);  // but not the first one: this is the status that shells give the others.
  };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int number : {SIGTERM, SIGINT}) ::sigaction(number, &action, nullptr);
}

// From here on SIGHUP and SIGUSR1 wait until the process ends. When their handlers are gone, they
// would end it before, by default. (No other thread receives signals.)
void ignore_requests() {
  sigset_t requests;
  sigemptyset(&requests);
  for (const int number : {SIGHUP, SIGUSR1}) sigaddset(&requests, number);
  pthread_sigmask(SIG_BLOCK, &requests, nullptr);
}

// Writes a snapshot whenever the signal comes.
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

// Warns of certificates that end soon, now and once a day.
void watch_certificates(boost::asio::steady_timer& timer, Server& server) {
  server.warn_of_certificates();
  timer.expires_after(std::chrono::hours(24));
  timer.async_wait([&](const boost::system::error_code& error) {
    if (!error) watch_certificates(timer, server);
  });
}

/// Reloads a server's files on SIGHUP and when one of them has changed: the server's own file, and
/// those for TLS. Used by one thread.
class Reloader {
 public:
  /// `file` may be empty. Changes from here on are noticed, and taken when the context runs, after
  /// start().
  Reloader(boost::asio::io_context& context, const LoadOptions& load, std::string file, Log& log)
      : load_(load),
        file_(std::move(file)),
        log_(log),
        hangups_(context, SIGHUP),
        watch_(context, [this] { take_changes(); }) {
    watch_files({});
    await_hangup();
  }

  /// Loads the options, and watches the files that they name from before these are used.
  ServerOptions load() {
    ServerOptions options = load_();
    watch_files(certificate_files(options));
    return options;
  }

  /// `server` must outlive the run of the context; `drain` is what it was started with.
  void start(Server& server, std::chrono::milliseconds drain) {
    server_ = &server;
    drain_ = drain;
    warn_of_unwatched();
  }
  /// The present value.
  std::chrono::milliseconds drain() const { return drain_; }

 private:
  void await_hangup() {
    hangups_.async_wait([this](const boost::system::error_code& error, int) {
      if (error) return;
      watch_.note();
      take_changes();
      await_hangup();
    });
  }

  void watch_files(std::set<std::string> files) {
    if (!file_.empty()) files.insert(file_);
    watch_.watch(files);
  }

  void take_changes() {
    notify_reloading();
    ServerOptions options;
    std::string changes;
    std::optional<std::string> error;
    try {
      if (is_special_file(file_)) {
        throw ConfigError(file_ + " is no regular file, and only at the start may it be a pipe");
      }
      options = load();
      changes = server_->reload(options);
    } catch (const std::exception& failure) {
      error = failure.what();
    }
    server_->count_reload(!error);
    if (error) {
      log_.write(
          {LogLevel::kError, "not_reloaded", "not reloaded, all stays as it was: " + *error});
    } else {
      note_reload(options, changes);
    }
    warn_of_unwatched();
    notify_service_manager("READY=1");
  }

  void note_reload(const ServerOptions& options, const std::string& changes) {
    drain_ = options.drain;
    log_.configure(options.log);
    log_.write(
        {LogLevel::kInfo, "reloaded", "reloaded: " + server_->description() + "; " + changes});
    server_->warn_of_options(options);
    server_->warn_of_certificates();
  }

  // Once for each error, until it is over.
  void warn_of_unwatched() {
    const std::string before = std::exchange(unwatched_, watch_.error());
    if (unwatched_.empty() || unwatched_ == before) return;
    log_.write({LogLevel::kWarning, "not_watched",
                "some changes of files are noticed on SIGHUP only: " + unwatched_});
  }

  const LoadOptions& load_;
  const std::string file_;
  Log& log_;
  boost::asio::signal_set hangups_;
  FileWatch watch_;
  std::string unwatched_;  // What the last warning said.
  Server* server_ = nullptr;
  std::chrono::milliseconds drain_{0};
};

}  // namespace

bool run_server(const LoadOptions& load, const std::string& file, const std::shared_ptr<Log>& log,
                const std::function<void(const Server&)>& started) {
  // If the log goes to a pipe that nothing reads any more, its lines are lost, and the server goes
  // on.
  std::signal(SIGPIPE, SIG_IGN);
  end_on_signals();
  boost::asio::io_context context;
  boost::asio::signal_set snapshot_signals(context, SIGUSR1);
  boost::asio::steady_timer certificate_timer(context);
  Reloader reloader(context, load, file, *log);
  ServerOptions options = reloader.load();
  log->configure(options.log);
  options.passed_sockets = take_passed_sockets();
  Server server(options, [log](const LogEvent& event) { log->write(event); });
  reloader.start(server, options.drain);
  // Until here a signal ends the process at once: it may wait for a pipe with a certificate.
  boost::asio::signal_set signals(context, SIGTERM, SIGINT);
  server.start();
  log->write({LogLevel::kInfo, "serving", server.description()});
  notify_service_manager("READY=1");
  started(server);
  await_snapshot_signal(snapshot_signals, server, *log);
  watch_certificates(certificate_timer, server);
  signals.async_wait([&](const boost::system::error_code&, int) { context.stop(); });
  context.run();
  end_on_signals();
  ignore_requests();
  notify_service_manager("STOPPING=1");
  const std::chrono::milliseconds drain = reloader.drain();
  log->write({LogLevel::kInfo,
              "stopping",
              "stopping within " + format_duration(std::chrono::nanoseconds(drain).count()),
              {{"drain_seconds", in_seconds(drain)}}});
  const bool is_whole = server.stop(drain);
  log->write({LogLevel::kInfo, "stopped", "stopped"});
  return is_whole;
}

}  // namespace sluice
