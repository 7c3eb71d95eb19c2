#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <iostream>

#include "server/server.h"

namespace sluice {
namespace {

// In one piece, since other lines may be written at the same time. That a store is connected at the
// start is not worth a line.
void log_store(const StoreEvent& event) {
  if (event.kind == StoreEvent::Kind::kUp && event.health.times_lost == 0) return;
  std::cerr << "sluice: " + event.message + "\n";
}

}  // namespace

void run_server(const ServerOptions& options) {
  boost::asio::io_context context;
  boost::asio::signal_set signals(context, SIGTERM, SIGINT);
  ServerOptions observed = options;
  observed.observe_store = log_store;
  Server server(observed);
  server.start();
  std::cout << "sluice: " << server.description() << std::endl;
  signals.async_wait([](const boost::system::error_code&, int) {});
  context.run();
  // From here on a signal does what it does to any program: it ends it.
  signals.clear();
  server.stop(options.drain);
}

}  // namespace sluice
