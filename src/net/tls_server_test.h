#pragma once

#include <openssl/ssl.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "net/fake_server_test.h"

namespace sluice {

/// A certificate authority and what it has signed, made by the openssl command, in a folder of its
/// own: ca.pem, NAME.pem and NAME.key. `server` is for localhost and 127.0.0.1, `client` for nobody
/// in particular; `other-ca.pem` has signed nothing.
class Certificates {
 public:
  Certificates() {
    std::filesystem::create_directory(folder_);
    make_authority("ca");
    make_authority("other-ca");
    sign("server", "-addext subjectAltName=DNS:localhost,IP:127.0.0.1");
    sign("client", "-addext extendedKeyUsage=clientAuth");
  }
  ~Certificates() { std::filesystem::remove_all(folder_); }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  std::string path(const std::string& file) const { return (folder_ / file).string(); }

 private:
  void make_authority(const std::string& name) { request(name, "-subj /CN=" + name); }
  void sign(const std::string& name, const std::string& extension) {
    request(name, "-subj /CN=" + name + " -CA " + path("ca.pem") + " -CAkey " + path("ca.key") +
                      " -addext basicConstraints=CA:false " + extension);
  }
  void request(const std::string& name, const std::string& arguments) {
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 " +
        arguments + " -keyout " + path(name + ".key") + " -out " + path(name + ".pem") +
        " 2>/dev/null";
    if (std::system(command.c_str()) != 0) throw std::runtime_error("cannot run: " + command);
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("sluice_tls_" + std::to_string(::getpid()));
};

/// The server's end of a TLS stream, as a script uses it.
class TlsPeer {
 public:
  struct Options {
    bool wants_certificate = false;
    int version = TLS1_3_VERSION;
  };

  TlsPeer(Peer peer, const Certificates& certificates, Options options)
      : peer_(std::move(peer)), context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free) {
    SSL_CTX* const context = context_.get();
    require(SSL_CTX_use_certificate_file(context, certificates.path("server.pem").c_str(),
                                         SSL_FILETYPE_PEM) == 1);
    require(SSL_CTX_use_PrivateKey_file(context, certificates.path("server.key").c_str(),
                                        SSL_FILETYPE_PEM) == 1);
    require(SSL_CTX_load_verify_file(context, certificates.path("ca.pem").c_str()) == 1);
    SSL_CTX_set_max_proto_version(context, options.version);
    if (options.wants_certificate) {
      SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    ssl_.reset(SSL_new(context));
    SSL_set_fd(ssl_.get(), peer_.fd());
  }

  bool shake_hands() { return SSL_accept(ssl_.get()) == 1; }
  /// The name the client has asked for.
  std::string name() const {
    const char* name = SSL_get_servername(ssl_.get(), TLSEXT_NAMETYPE_host_name);
    return name == nullptr ? "" : name;
  }

  std::string line() {
    std::string text;
    char byte = 0;
    while (SSL_read(ssl_.get(), &byte, 1) == 1) {
      text += byte;
      if (byte == '\n') break;
    }
    return text;
  }
  bool send(std::string_view bytes) {
    std::size_t sent = 0;
    return SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &sent) == 1;
  }
  /// What TLS runs on.
  Peer& below() { return peer_; }
  void close() {
    SSL_shutdown(ssl_.get());
    peer_.close();
  }

 private:
  static void require(bool holds) {
    if (!holds) throw std::runtime_error("the test's certificates cannot be used");
  }

  Peer peer_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
};

}  // namespace sluice
