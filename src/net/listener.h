#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "net/address.h"
#include "net/unique_fd.h"

namespace sluice {

/// How many peers may have connected to one socket and not been accepted yet. The kernel allows one
/// more, and fewer where net.core.somaxconn is smaller.
inline constexpr int kListenBacklog = 1024;

/// An address cannot be listened on; what() is one sentence that names it and the reason.
class ListenError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The non-blocking sockets that listen on one address, and that address with its real port.
///
/// A TCP address has one socket per thread (SO_REUSEPORT: the kernel spreads the connections, no
/// thread waits for another). A Unix socket, which the kernel cannot spread, has one; its file is
/// removed with this object, unless another one has taken its place. The kernel asks a TCP peer
/// that has been silent for five minutes whether it is still there. One thread at a time.
class Listener {
 public:
  /// A file left by a server that is gone is replaced; one that somebody's socket has made is not,
  /// though that may not listen yet. (Of two servers that replace a file in the same instant, the
  /// later may get the path and the earlier not learn it.)
  /// Throws ListenError. REQUIRES: threads >= 1.
  Listener(const Address& address, std::size_t threads);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const Address& address() const { return address_; }

  /// Gives a socket away to whoever accepts from it, and ends listening by closing it.
  /// REQUIRES: i < threads, or 0 for a Unix socket; once for each i.
  UniqueFd take_socket(std::size_t i) { return std::move(sockets_[i]); }

  /// Nobody finds a Unix socket any more. Does nothing for TCP, nor the second time.
  void remove_file();

 private:
  void open_tcp(std::size_t threads);
  void open_unix();

  Address address_;
  std::vector<UniqueFd> sockets_;
  // Which file a Unix socket has made; 0: none.
  std::uint64_t file_device_ = 0;
  std::uint64_t file_inode_ = 0;
};

}  // namespace sluice
