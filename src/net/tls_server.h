#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace sluice {

/// The PEM files of a listener with TLS.
struct TlsServerFiles {
  /// The server's certificate, with the chain behind it.
  std::string certificate;
  /// Its private key, without a passphrase; in the certificate's file if this is empty.
  std::string key;
  /// If not empty: clients must present a certificate that an authority in this file has signed.
  std::string client_ca;

  friend auto operator<=>(const TlsServerFiles&, const TlsServerFiles&) = default;
};

/// The server's end of TLS 1.2 and 1.3, for the connections of one or more listeners. Thread-safe.
/// When the files change, the server makes a new one: clients cannot resume sessions of the former,
/// so their certificates are checked again, by the new files.
class TlsServer final {
 public:
  /// Reads the files. Throws std::runtime_error if one cannot be used: one sentence that names it.
  explicit TlsServer(const TlsServerFiles& files);

  /// When the certificate ends, or the first of its chain to end; in seconds since the Unix epoch.
  std::int64_t not_after_s() const;

  boost::asio::ssl::context& context() const { return *context_; }

 private:
  const std::shared_ptr<boost::asio::ssl::context> context_;
};

}  // namespace sluice
