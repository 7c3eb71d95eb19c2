#pragma once

#include <openssl/types.h>

#include <array>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "net/endpoint.h"

namespace boost::asio::ssl {
class context;
}

namespace sluice {

/// How to speak TLS to servers, with what the files hold: shared by the endpoints of a store, since
/// reading the system's certificates takes tens of milliseconds, too long for a worker thread each
/// time that a cluster changes. Thread-safe.
class TlsContext final {
 public:
  explicit TlsContext(TlsOptions given) : options(std::move(given)) {}

  const TlsOptions options;

  /// Called before each TLS handshake. With the files as they are now, which are read if they have
  /// changed; where they cannot be used, as they were. Throws std::runtime_error, one sentence, if
  /// they never could be used.
  std::shared_ptr<boost::asio::ssl::context> current();

 private:
  using FileTimes = std::array<std::filesystem::file_time_type, 3>;

  std::mutex mutex_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  FileTimes times_;  // When each file was changed last, before it was read.
};

/// Why no connection over TLS can be made: one sentence.
class TlsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The TLS settings for one server, whose certificate is checked.
class TlsClient final {
 public:
  /// REQUIRES: endpoint.tls. Throws TlsError where a file cannot be used, or where there is no name
  /// to check.
  explicit TlsClient(const Endpoint& endpoint);

  /// Sets the server name to request and to check. Called for each new stream before its TLS
  /// handshake.
  void prepare(SSL* ssl) const;
  /// After a failed TLS handshake: why the server's certificate was not accepted; empty if it
  /// failed for another reason.
  std::string refusal(SSL* ssl) const;

 private:
  std::string server_name_;
  bool name_is_address_ = false;
};

}  // namespace sluice
