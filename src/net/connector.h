#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "net/client_stream.h"
#include "net/endpoint.h"
#include "net/event_loop.h"
#include "net/name_lookup.h"
#include "net/socket_address.h"
#include "net/tls_client.h"
#include "net/unique_fd.h"

namespace sluice {

/// What came of a connect() that waits no more: 0, or the system's error. Where nobody listens on a
/// port of this machine, the system may choose that very port for the socket's own end, which
/// connects it to itself: that is ECONNREFUSED, and the port is free as soon as `fd` is closed.
int connect_error(int fd);

/// Makes a stream to an endpoint: finds its addresses, connects to one after the other until one
/// accepts, and shakes hands. Keeps no time: whoever waits for it abandons it.
///
/// Belongs to the loop's thread.
class Connector final {
 public:
  enum class Progress : std::uint8_t { kWaiting, kConnected, kFailed };

  /// The sink of its sockets' events, and what to call when addresses were found: after either,
  /// advance() goes on. `loop`, `endpoint` and `sink` outlive it. Throws as TlsClient does.
  Connector(EventLoop& loop, const Endpoint& endpoint, EventSink& sink,
            std::function<void()> on_found, NameLookup::Resolve resolve = look_up);

  /// Begins an attempt. A search for addresses that an attempt before it began goes on; if it has
  /// ended since, this attempt uses what it found.
  /// REQUIRES: the attempt before it was abandoned, whatever came of it.
  Progress begin();
  /// Does what can be done without waiting.
  Progress advance();
  /// Ends the attempt, and forgets the addresses it used. The next one begins with the address
  /// after the one that did not answer, or that led to a server that is of no use.
  void abandon(bool of_no_use = false);

  /// After kConnected: the stream, whose socket the loop watches.
  std::unique_ptr<ClientStream> take();
  /// After kFailed: one sentence.
  const std::string& fault() const { return fault_; }
  /// What the attempt waits for, as what cannot be done: "connect to localhost:6379".
  std::string doing() const;

 private:
  enum class Step : std::uint8_t { kResting, kFinding, kConnecting, kShakingHands };

  Progress find();
  Progress try_addresses();
  Progress open(const SocketAddress& address);
  Progress finish_connecting();
  Progress shake_hands();
  Progress fail(const std::string& reason);
  bool set_options(const SocketAddress& address);
  void drop_socket();
  const SocketAddress& current() const;

  EventLoop& loop_;
  const Endpoint& endpoint_;
  EventSink& sink_;
  std::function<void()> on_found_;
  const NameLookup::Resolve resolve_;
  std::optional<TlsClient> tls_;

  Step step_ = Step::kResting;
  std::unique_ptr<NameLookup> lookup_;
  FoundAddresses found_;
  std::size_t first_ = 0;  // Which address this attempt tries first, and how many it has tried.
  std::size_t tried_ = 0;
  UniqueFd socket_;
  std::unique_ptr<ClientStream> stream_;
  std::string fault_;
};

}  // namespace sluice
