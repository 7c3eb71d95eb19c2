#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "net/address.h"
#include "net/unique_fd.h"

namespace sluice {

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
/// that has been silent for five minutes whether it is still there.
class Listener {
 public:
  /// A file left by a server that is gone is replaced; one on which somebody listens is not.
  /// Throws ListenError. REQUIRES: threads >= 1.
  Listener(const Address& address, std::size_t threads);
  ~Listener();
  Listener(Listener&&) = default;
  Listener& operator=(Listener&&) = delete;

  const Address& address() const { return address_; }
  std::size_t socket_count() const { return sockets_.size(); }
  /// REQUIRES: i < socket_count().
  int socket(std::size_t i) const { return sockets_[i].get(); }

  /// Listens no more.
  void close();

 private:
  void open_tcp(std::size_t threads);
  void open_unix();

  Address address_;
  std::vector<UniqueFd> sockets_;
  // Which file a Unix socket has made.
  std::uint64_t file_device_ = 0;
  std::uint64_t file_inode_ = 0;
};

}  // namespace sluice
