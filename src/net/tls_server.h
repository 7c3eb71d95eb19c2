#pragma once

#include <memory>
#include <mutex>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace sluice {

/// The PEM files of a listener that speaks TLS.
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
class TlsServer final {
 public:
  /// Throws std::runtime_error where a file cannot be used: one sentence that says which.
  explicit TlsServer(TlsServerFiles files);

  const TlsServerFiles& files() const { return files_; }

  /// Reads the files again, for the connections that are accepted from now on. A client that comes
  /// back cannot resume a session from before: what the new files say is checked again. Throws as
  /// the constructor does, and keeps what it has.
  void reload();

  /// What a new connection uses for as long as it lives.
  std::shared_ptr<boost::asio::ssl::context> context() const;

 private:
  const TlsServerFiles files_;
  mutable std::mutex mutex_;
  std::shared_ptr<boost::asio::ssl::context> context_;  // Guarded by mutex_.
};

}  // namespace sluice
