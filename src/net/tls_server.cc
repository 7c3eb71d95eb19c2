#include "net/tls_server.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <boost/asio/ssl/context.hpp>
#include <ctime>
#include <new>
#include <string_view>

#include "net/tls_files.h"

namespace sluice {
namespace {

namespace ssl = boost::asio::ssl;

/// Sessions are resumed by tickets, whose keys each context makes for itself; the server remembers
/// no session.
std::shared_ptr<ssl::context> make_context(const TlsServerFiles& files) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  ::SSL_CTX* const handle = context->native_handle();
  ::SSL_CTX_set_min_proto_version(handle, TLS1_2_VERSION);
  ::SSL_CTX_set_options(handle, SSL_OP_NO_RENEGOTIATION);
  // The cipher suites of TLS 1.2 that have forward secrecy and authenticated encryption. All suites
  // of TLS 1.3 have both.
  ::SSL_CTX_set_cipher_list(handle, "ECDHE+AESGCM:ECDHE+CHACHA20");
  ::SSL_CTX_set_session_cache_mode(handle, SSL_SESS_CACHE_OFF);
  // An idle connection keeps no record buffers.
  ::SSL_CTX_set_mode(handle, SSL_MODE_RELEASE_BUFFERS);
  load_certificate(*context, files.certificate, files.key);
  if (files.client_ca.empty()) return context;
  load_authorities(*context, files.client_ca);
  context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
  // The names of the authorities, from which a client chooses its certificate. Not from the file,
  // which may be a pipe, and has been read.
  const auto* const trusted = ::X509_STORE_get0_objects(::SSL_CTX_get_cert_store(handle));
  for (int i = 0; i < sk_X509_OBJECT_num(trusted); ++i) {
    X509* const authority = ::X509_OBJECT_get0_X509(sk_X509_OBJECT_value(trusted, i));
    if (authority != nullptr) ::SSL_CTX_add_client_CA(handle, authority);
  }
  // Without this name of the context, OpenSSL resumes no session that has a client's certificate.
  constexpr std::array<unsigned char, 1> kSessions{1};
  ::SSL_CTX_set_session_id_context(handle, kSessions.data(), kSessions.size());
  return context;
}

}  // namespace

TlsServer::TlsServer(const TlsServerFiles& files) : context_(make_context(files)) {}

std::int64_t TlsServer::not_after_s() const {
  const auto end_of = [](const ::X509* certificate) {
    std::tm time{};
    ::ASN1_TIME_to_tm(::X509_get0_notAfter(certificate), &time);
    return std::int64_t{::timegm(&time)};
  };
  ::SSL_CTX* const handle = context_->native_handle();
  std::int64_t end = end_of(::SSL_CTX_get0_certificate(handle));
  STACK_OF(X509)* chain = nullptr;
  ::SSL_CTX_get0_chain_certs(handle, &chain);
  for (int i = 0; i < sk_X509_num(chain); ++i) end = std::min(end, end_of(sk_X509_value(chain, i)));
  return end;
}

/// How OpenSSL reads what was received and writes what is to be sent.
struct TlsSession::Callbacks {
  static TlsSession& session(BIO* bio) { return *static_cast<TlsSession*>(::BIO_get_data(bio)); }

  static int read(BIO* bio, char* to, std::size_t room, std::size_t* bytes) {
    InputBuffer& received = session(bio).received_;
    ::BIO_clear_retry_flags(bio);
    *bytes = received.unread().copy(to, room);
    received.consume(*bytes);
    if (*bytes == 0) ::BIO_set_retry_read(bio);
    return *bytes == 0 ? 0 : 1;
  }

  static int write(BIO* bio, const char* from, std::size_t size, std::size_t* bytes) noexcept {
    *bytes = 0;
    try {
      session(bio).to_send_.append(from, size);
    } catch (const std::bad_alloc&) {  // It cannot pass through OpenSSL; the connection is closed.
      return 0;
    }
    *bytes = size;
    return 1;
  }

  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static BIO_METHOD* make() {
    BIO_METHOD* const method = ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "");
    if (method == nullptr) throw std::bad_alloc();
    ::BIO_meth_set_read_ex(method, read);
    ::BIO_meth_set_write_ex(method, write);
    ::BIO_meth_set_ctrl(method, control);
    return method;
  }
};

TlsSession::TlsSession(const TlsServer& server)
    : ssl_(::SSL_new(server.context().native_handle()), ::SSL_free) {
  static const BIO_METHOD* const method = Callbacks::make();
  BIO* const bio = ::BIO_new(method);
  if (ssl_ == nullptr || bio == nullptr) {
    ::BIO_free(bio);
    throw std::bad_alloc();
  }
  ::BIO_set_data(bio, this);
  ::BIO_set_init(bio, 1);
  ::SSL_set_bio(ssl_.get(), bio, bio);
  ::SSL_set_accept_state(ssl_.get());
}

bool TlsSession::shake_hands() {
  ::ERR_clear_error();
  const int result = ::SSL_do_handshake(ssl_.get());
  has_failed_ = result != 1 && ::SSL_get_error(ssl_.get(), result) != SSL_ERROR_WANT_READ;
  has_ended_ = has_failed_;
  return result == 1;
}

std::string TlsSession::failure() const {
  const char* const reason = ::ERR_reason_error_string(::ERR_peek_error());
  std::string text = reason != nullptr ? reason : "an unknown error";
  const long verified = ::SSL_get_verify_result(ssl_.get());
  if (verified == X509_V_OK) return text;
  return text.append(" (").append(::X509_verify_cert_error_string(verified)).append(")");
}

std::string TlsSession::subject() const {
  X509* const certificate = ::SSL_get0_peer_certificate(ssl_.get());
  const std::unique_ptr<BIO, int (*)(BIO*)> text(::BIO_new(::BIO_s_mem()), ::BIO_free);
  if (certificate == nullptr || text == nullptr) return {};
  ::X509_NAME_print_ex(text.get(), ::X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text.get(), &bytes);
  if (size <= 0) return "(no subject)";  // Not as without a certificate.
  return {bytes, static_cast<std::size_t>(size)};
}

std::size_t TlsSession::open(std::span<char> room) {
  if (has_ended_) return 0;
  ::ERR_clear_error();
  std::size_t bytes = 0;
  const int result = ::SSL_read_ex(ssl_.get(), room.data(), room.size(), &bytes);
  if (result == 1) return bytes;
  const int error = ::SSL_get_error(ssl_.get(), result);
  has_ended_ = error != SSL_ERROR_WANT_READ;
  has_failed_ = has_ended_ && error != SSL_ERROR_ZERO_RETURN;
  return 0;
}

bool TlsSession::has_unopened() const {
  return !has_ended_ && (!received_.unread().empty() || ::SSL_pending(ssl_.get()) != 0);
}

bool TlsSession::has_part() const {
  // Once its header is read, OpenSSL counts the header no longer among what it has pending. Its
  // version 3.0 has no other function that tells this state.
  const bool reads_body = std::string_view(::SSL_rstate_string(ssl_.get())) == "RB";
  return !has_ended_ && (reads_body || ::SSL_has_pending(ssl_.get()) == 1);
}

bool TlsSession::seal(std::string& text) {
  if (text.empty()) return true;
  std::size_t bytes = 0;
  ::ERR_clear_error();
  if (has_failed_ || ::SSL_write_ex(ssl_.get(), text.data(), text.size(), &bytes) != 1) {
    return false;
  }
  clear_output(text);
  return true;
}

void TlsSession::end() {
  if (!has_failed_ && ::SSL_is_init_finished(ssl_.get()) == 1) ::SSL_shutdown(ssl_.get());
}

}  // namespace sluice
