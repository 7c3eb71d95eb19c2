#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>

#include "net/endpoint.h"

namespace boost::asio::ssl {
class context;
}

namespace sluice {

/// How TLS is spoken to one server, whose certificate is checked. Those that exist at the same time
/// and are made with the same options share what was read from files: only the first reads them.
class TlsClient final {
 public:
  /// REQUIRES: endpoint.tls. Throws std::runtime_error where a file cannot be used, or where there
  /// is no name to check: one sentence that says which.
  explicit TlsClient(const Endpoint& endpoint);

  boost::asio::ssl::context& context() const { return *context_; }
  /// To be called for each new stream before its handshake: the name to ask for, and to check.
  void prepare(SSL* ssl) const;
  /// After a handshake that failed: why the server's certificate is not accepted; empty where it
  /// failed for another reason.
  std::string refusal(SSL* ssl) const;

 private:
  std::shared_ptr<boost::asio::ssl::context> context_;
  std::string server_name_;
  bool name_is_address_ = false;
};

}  // namespace sluice
