#include "net/tls_client.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "net/tls_socket.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxNameBytes = TLSEXT_MAXLEN_host_name;

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, FreeSsl>;

/// The first of this thread's errors, which is the cause of the others, in OpenSSL's words.
std::string first_error() {
  const unsigned long code = ERR_peek_error();
  // A file that cannot be opened is the system's error, which OpenSSL numbers as its own.
  if (ERR_SYSTEM_ERROR(code)) return std::generic_category().message(ERR_GET_REASON(code));
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "unknown TLS error";
}

class TlsStream final : public ClientStream {
 public:
  TlsStream(UniqueFd socket, SslPtr ssl, std::string server_name)
      : ClientStream(std::move(socket)),
        ssl_(std::move(ssl)),
        server_name_(std::move(server_name)) {}

  ~TlsStream() override {
    // The other side is told, if there is room for it at once; it need not answer.
    if (is_up_) SSL_shutdown(ssl_.get());
    ERR_clear_error();
  }

  Transfer shake_hands() override {
    const Transfer done = outcome([&] { return SSL_connect(ssl_.get()); });
    if (done.status == Transfer::Status::kMoved) {
      is_up_ = true;
    } else if (done.status == Transfer::Status::kFailed) {
      name_certificate_fault();
    }
    return done;
  }

  // A record of which a part has left is not counted as sent. That is true enough: the other side
  // cannot read it without the rest.
  Transfer send(std::string_view bytes) override {
    std::size_t sent = 0;
    Transfer done =
        outcome([&] { return SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &sent); });
    done.bytes = sent;
    return done;
  }

  Transfer receive(std::span<char> room) override {
    std::size_t got = 0;
    Transfer done =
        outcome([&] { return SSL_read_ex(ssl_.get(), room.data(), room.size(), &got); });
    done.bytes = got;
    return done;
  }

  bool holds_more() const override { return SSL_has_pending(ssl_.get()) == 1; }

  // Reads what only TLS itself sends, new session tickets most of all.
  bool is_quiet() override {
    char byte = 0;
    std::size_t got = 0;
    const Transfer seen = outcome([&] { return SSL_peek_ex(ssl_.get(), &byte, 1, &got); });
    return seen.status == Transfer::Status::kMustRead;
  }

 private:
  template <typename Call>
  Transfer outcome(Call call) {
    ERR_clear_error();
    errno = 0;
    const int result = call();
    const int system_error = errno;
    if (result > 0) return {Transfer::Status::kMoved, 0};
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return {Transfer::Status::kMustRead, 0};
      case SSL_ERROR_WANT_WRITE:
        return {Transfer::Status::kMustWrite, 0};
      case SSL_ERROR_ZERO_RETURN:
        is_up_ = false;
        return {Transfer::Status::kEnded, 0};
      case SSL_ERROR_SYSCALL:
        is_up_ = false;
        if (system_error == 0) return {Transfer::Status::kEnded, 0};
        fault_ = std::generic_category().message(system_error);
        return {Transfer::Status::kFailed, 0};
      default:
        is_up_ = false;
        if (fault_.empty()) fault_ = first_error();
        return {Transfer::Status::kFailed, 0};
    }
  }

  void name_certificate_fault() {
    const long verdict = SSL_get_verify_result(ssl_.get());
    if (verdict == X509_V_OK || SSL_get_verify_mode(ssl_.get()) == SSL_VERIFY_NONE) return;
    fault_ = std::string("its certificate is not accepted for ") + server_name_ + ": " +
             X509_verify_cert_error_string(verdict);
  }

  SslPtr ssl_;
  std::string server_name_;
  bool is_up_ = false;
};

[[noreturn]] void refuse(const Endpoint& endpoint, const std::string& what) {
  throw std::runtime_error("TLS to " + endpoint.text() + ": " + what);
}

[[noreturn]] void refuse_file(const Endpoint& endpoint, const std::string& what) {
  const std::string reason = first_error();
  ERR_clear_error();
  refuse(endpoint, what + ": " + reason);
}

void load_files(SSL_CTX* context, const Endpoint& endpoint) {
  const TlsOptions& tls = *endpoint.tls;
  ERR_clear_error();
  if (tls.ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_file(context, tls.ca_file.c_str()) != 1) {
    refuse_file(endpoint, "the CA file " + tls.ca_file + " cannot be used");
  }
  if (tls.certificate_file.empty()) {
    if (tls.key_file.empty()) return;
    refuse(endpoint, "the key file " + tls.key_file + " needs a certificate file beside it");
  }
  if (SSL_CTX_use_certificate_chain_file(context, tls.certificate_file.c_str()) != 1) {
    refuse_file(endpoint, "the certificate file " + tls.certificate_file + " cannot be used");
  }
  const std::string& key_file = tls.key_file.empty() ? tls.certificate_file : tls.key_file;
  // Nobody is there to be asked for a passphrase.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return 0; });
  if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    refuse_file(endpoint, "the key in " + key_file + " cannot be used");
  }
}

std::shared_ptr<SSL_CTX> make_context(const Endpoint& endpoint) {
  std::shared_ptr<SSL_CTX> made(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX* const context = made.get();
  if (context == nullptr) throw std::bad_alloc();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_verify(context, endpoint.tls->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  load_files(context, endpoint);
  return made;
}

/// Reading the system's certificates takes tens of milliseconds, for which no loop's thread has
/// time when a fleet changes; and then the files may have gone.
std::shared_ptr<SSL_CTX> shared_context(const Endpoint& endpoint) {
  static std::mutex mutex;
  static std::map<TlsOptions, std::weak_ptr<SSL_CTX>> contexts;  // Guarded by mutex.
  const std::lock_guard lock(mutex);
  std::erase_if(contexts, [](const auto& entry) { return entry.second.expired(); });
  if (const auto known = contexts.find(*endpoint.tls); known != contexts.end()) {
    if (auto context = known->second.lock()) return context;
  }
  auto context = make_context(endpoint);
  contexts[*endpoint.tls] = context;
  return context;
}

bool is_address(const std::string& name) {
  in6_addr binary{};
  return ::inet_pton(AF_INET, name.c_str(), &binary) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), &binary) == 1;
}

}  // namespace

TlsClient::TlsClient(const Endpoint& endpoint) {
  const TlsOptions& tls = *endpoint.tls;
  server_name_ = tls.server_name.empty() ? endpoint.host : tls.server_name;
  if (!endpoint.unix_path.empty()) server_name_ = tls.server_name;
  if (server_name_.empty() && !tls.insecure) {
    refuse(endpoint, "a server name is needed, to compare the server's certificate with");
  }
  if (server_name_.size() > kMaxNameBytes) {
    refuse(endpoint, "the server name has " + std::to_string(server_name_.size()) +
                         " bytes, at most " + std::to_string(kMaxNameBytes));
  }
  name_is_address_ = is_address(server_name_);
  context_ = shared_context(endpoint);
}

TlsClient::~TlsClient() = default;

std::unique_ptr<ClientStream> TlsClient::wrap(UniqueFd socket) const {
  SslPtr ssl(SSL_new(context_.get()));
  BIO* const bio = ssl == nullptr ? nullptr : make_tls_socket(socket.get());
  if (bio == nullptr) throw std::bad_alloc();
  SSL_set_bio(ssl.get(), bio, bio);
  bool named = true;
  if (name_is_address_) {
    named = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), server_name_.c_str()) == 1;
  } else if (!server_name_.empty()) {
    SSL_set_hostflags(ssl.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    named = SSL_set1_host(ssl.get(), server_name_.c_str()) == 1 &&
            SSL_set_tlsext_host_name(ssl.get(), server_name_.c_str()) == 1;
  }
  // Without the name nothing would be checked against it.
  if (!named) throw std::bad_alloc();
  return std::make_unique<TlsStream>(std::move(socket), std::move(ssl), server_name_);
}

}  // namespace sluice
