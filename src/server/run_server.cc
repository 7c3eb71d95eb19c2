#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <iostream>

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

}  // namespace

void run_server(const ServerOptions& options) {
  boost::asio::io_context context;
  boost::asio::signal_set signals(context, SIGTERM, SIGINT);
  boost::asio::signal_set snapshot_signals(context, SIGUSR1);
  ServerOptions observed = options;
  observed.observe_store = log_store;
  observed.say = log;
  Server server(observed);
  server.start();
  std::cout << "sluice: " << server.description() << std::endl;
  notify_service_manager("READY=1");
  await_snapshot_signal(snapshot_signals, server);
  signals.async_wait([&](const boost::system::error_code&, int) { context.stop(); });
  context.run();
  // From here on a signal does what it does to any program: it ends it.
  signals.clear();
  notify_service_manager("STOPPING=1");
  server.stop(options.drain);
}

}  // namespace sluice
