#include "net/tls_server.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <boost/asio/ssl/context.hpp>
#include <ctime>

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
  // The names of the authorities, from which a client chooses its certificate.
  ::SSL_CTX_set_client_CA_list(handle, ::SSL_load_client_CA_file(files.client_ca.c_str()));
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

}  // namespace sluice
