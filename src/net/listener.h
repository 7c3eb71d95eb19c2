#pragma once

#include <cstdint>
#include <vector>

#include "net/address.h"
#include "net/connection.h"

namespace sluice {

/// How many peers may have connected to one socket and not been accepted yet. The kernel allows one
/// more, and fewer where net.core.somaxconn is smaller.
inline constexpr int kListenBacklog = 1024;

/// The sockets that listen on one address, and that address with its real port.
///
/// A TCP address has one socket for each context (SO_REUSEPORT: the kernel spreads the connections,
/// no thread waits for another). A Unix socket, which the kernel cannot spread, has one, in the
/// first context; its file is removed with this object, unless another one has taken its place. The
/// kernel probes a TCP peer that has been silent for five minutes. Not thread-safe.
class Listener {
 public:
  /// A file left by a server that is gone is replaced; one that belongs to a socket is not, though
  /// that may not listen yet. (Of two servers that replace a file in the same instant, the later
  /// may get the path and the earlier not learn it.)
  /// Throws ListenError. REQUIRES: contexts is not empty.
  Listener(const Address& address, const std::vector<boost::asio::io_context*>& contexts);
  ~Listener() { remove_file(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const Address& address() const { return address_; }

  /// Gives the sockets away.
  std::vector<ServingAcceptor> take_sockets() { return std::move(sockets_); }

  /// From now on a Unix socket cannot be found. Does nothing for TCP, nor the second time.
  void remove_file();

 private:
  Address address_;
  std::vector<ServingAcceptor> sockets_;
  // Which file a Unix socket has made; 0: none.
  std::uint64_t file_device_ = 0;
  std::uint64_t file_inode_ = 0;
};

}  // namespace sluice
