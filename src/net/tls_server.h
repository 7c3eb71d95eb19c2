#pragma once

#include <openssl/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "net/input_buffer.h"

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

/// TLS on one accepted connection, without its socket: takes the bytes that were received, and
/// gives the bytes to send. Not thread-safe.
class TlsSession final {
 public:
  explicit TlsSession(const TlsServer& server);
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// The buffer for received bytes.
  InputBuffer& received() { return received_; }

  /// Continues the handshake as far as the received bytes allow. Returns whether it is done. If
  /// has_failed() then, only seal() may be called: its output tells the peer why.
  bool shake_hands();
  /// Why the last call of shake_hands() has failed, in OpenSSL's words: "certificate verify failed
  /// (certificate has expired)".
  std::string failure() const;
  /// The subject of the client's certificate, which was verified, as RFC 2253 writes it
  /// ("CN=gateway"); empty if the client has presented no certificate, "(no subject)" if that has
  /// none. It is printable ASCII.
  std::string subject() const;

  /// Decrypts received bytes into `room`. Returns how many bytes it has written: 0 if more must be
  /// received first, if the peer has ended its side, or if the bytes are wrong: see has_ended().
  std::size_t open(std::span<char> room);
  /// Whether open() may return bytes before more bytes are received.
  bool has_unopened() const;
  /// Whether a part of a record has been received, and the rest has not.
  bool has_part() const;
  /// Whether nothing more can be decrypted: the peer has ended its side, or has sent wrong bytes.
  bool has_ended() const { return has_ended_; }

  /// Whether the peer has sent wrong bytes, or has refused the handshake: then nothing can be
  /// encrypted any more.
  bool has_failed() const { return has_failed_; }

  /// Encrypts `text`, and empties it. False if it cannot be encrypted.
  bool seal(std::string& text);
  /// The bytes to send: all that was encrypted, and what TLS itself has to say. The caller takes
  /// them from there.
  std::string& to_send() { return to_send_; }
  /// Tells the peer that no more text will follow.
  void end();
  /// Drops the bytes to send. The peer could not decrypt later ones: none are made from now on.
  void abandon() {
    has_failed_ = has_failed_ || !to_send_.empty();
    to_send_.clear();
  }

 private:
  struct Callbacks;

  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  InputBuffer received_;
  std::string to_send_;
  bool has_ended_ = false;
  bool has_failed_ = false;
};

}  // namespace sluice
