#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>

#include "net/client_stream.h"
#include "net/endpoint.h"
#include "net/unique_fd.h"

namespace sluice {

/// Makes TLS streams to one server, whose certificate it checks. Those that live at the same time
/// and are made with the same options share what was read from files: only the first reads them.
class TlsClient final {
 public:
  /// REQUIRES: endpoint.tls. Throws std::runtime_error where a file cannot be used, or where there
  /// is no name to check: one sentence that says which.
  explicit TlsClient(const Endpoint& endpoint);
  ~TlsClient();

  /// A stream on a connected non-blocking socket, which has to shake hands first. Throws
  /// std::bad_alloc.
  std::unique_ptr<ClientStream> wrap(UniqueFd socket) const;

 private:
  std::shared_ptr<SSL_CTX> context_;
  std::string server_name_;
  bool name_is_address_ = false;
};

}  // namespace sluice
