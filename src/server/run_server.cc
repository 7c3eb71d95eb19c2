#include <pthread.h>

#include <csignal>
#include <iostream>

#include "server/server.h"

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kGrace{5'000};

sigset_t end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void run_server(const ServerOptions& options) {
  // Every thread inherits these: only the wait below takes a signal.
  const sigset_t signals = end_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Server server(options);
  server.start();
  std::cout << "sluice: " << server.description() << std::endl;
  int signal = 0;
  while (::sigwait(&signals, &signal) != 0) {
  }
  // From here on a signal does what it does to any program: it ends it.
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  server.stop(kGrace);
}

}  // namespace sluice
