#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>

#include "net/endpoint.h"

namespace boost::asio::ssl {
class context;
}

namespace sluice {

/// The TLS settings for one server, whose certificate is checked. Objects that exist at the same
/// time and have equal options share the contents of the files, which are read again after they
/// have changed.
class TlsClient final {
 public:
  /// REQUIRES: endpoint.tls. Throws std::runtime_error where a file cannot be used, or where there
  /// is no name to check: one sentence that says which.
  explicit TlsClient(const Endpoint& endpoint);

  /// With the files as they are now; where they cannot be used, as they were. Called before each
  /// TLS handshake. Valid until the next call.
  boost::asio::ssl::context& context();
  /// Sets the server name to request and to check. Called for each new stream before its TLS
  /// handshake.
  void prepare(SSL* ssl) const;
  /// After a failed TLS handshake: why the server's certificate was not accepted; empty if it
  /// failed for another reason.
  std::string refusal(SSL* ssl) const;

 private:
  struct Files;
  static std::shared_ptr<Files> shared_files(const Endpoint& endpoint);

  const Endpoint endpoint_;
  std::shared_ptr<Files> files_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  std::string server_name_;
  bool name_is_address_ = false;
};

}  // namespace sluice
