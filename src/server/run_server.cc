#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <iostream>

#include "server/server.h"

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kGrace{5'000};

}  // namespace

void run_server(const ServerOptions& options) {
  boost::asio::io_context context;
  boost::asio::signal_set signals(context, SIGTERM, SIGINT);
  Server server(options);
  server.start();
  std::cout << "sluice: " << server.description() << std::endl;
  signals.async_wait([](const boost::system::error_code&, int) {});
  context.run();
  // From here on a signal does what it does to any program: it ends it.
  signals.clear();
  server.stop(kGrace);
}

}  // namespace sluice
