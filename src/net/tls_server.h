#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
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
class TlsServer final {
 public:
  /// Throws std::runtime_error if a file cannot be used: one sentence that names it.
  explicit TlsServer(TlsServerFiles files);

  const TlsServerFiles& files() const { return files_; }

  /// The contents of the files, as connections use them.
  using Context = std::shared_ptr<boost::asio::ssl::context>;

  /// Reads the files again, for use(). Throws as the constructor does.
  Context read() const;
  /// Makes connections that are accepted from now on use what read() returned. Clients cannot
  /// resume earlier sessions, so their certificates are checked again by the new files.
  void use(Context context);

  /// When the certificate for new connections ends, or the first of its chain to end; in seconds
  /// since the Unix epoch.
  std::int64_t not_after_s() const;

  /// What a new connection uses until it is closed.
  Context context() const;

 private:
  const TlsServerFiles files_;
  mutable std::mutex mutex_;
  Context context_;  // Guarded by mutex_.
};

}  // namespace sluice
