#include "net/tls_client.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cassert>
#include <new>
#include <system_error>

#include "net/special_file.h"
#include "net/tls_files.h"

namespace sluice {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

constexpr std::size_t kMaxNameBytes = TLSEXT_MAXLEN_host_name;

[[noreturn]] void refuse(const Endpoint& endpoint, const std::string& what) {
  throw TlsError("TLS to " + endpoint.text() + ": " + what);
}

void load_files(ssl::context& context, const TlsOptions& tls) {
  if (tls.ca_file.empty()) {
    error_code ignored;
    context.set_default_verify_paths(ignored);
  } else {
    load_authorities(context, tls.ca_file);
  }
  if (!tls.certificate_file.empty()) {
    load_certificate(context, tls.certificate_file, tls.key_file);
  } else if (!tls.key_file.empty()) {
    throw std::runtime_error("the key file " + tls.key_file +
                             " needs a certificate file beside it");
  }
}

std::shared_ptr<ssl::context> make_context(const TlsOptions& tls) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  ::SSL_CTX* const handle = context->native_handle();
  ::SSL_CTX_set_min_proto_version(handle, TLS1_2_VERSION);
  ::SSL_CTX_set_options(handle, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  context->set_verify_mode(tls.insecure ? ssl::verify_none : ssl::verify_peer);
  load_files(*context, tls);
  return context;
}

}  // namespace

std::shared_ptr<ssl::context> TlsContext::current() {
  const std::lock_guard lock(mutex_);
  const auto time_of = [](const std::string& file) {
    std::error_code ignored;
    return std::filesystem::last_write_time(file, ignored);
  };
  const FileTimes times{time_of(options.ca_file), time_of(options.certificate_file),
                        time_of(options.key_file)};
  if (context_ != nullptr && times == times_) return context_;
  const auto files = {options.ca_file, options.certificate_file, options.key_file};
  // A pipe could block the thread, which serves others.
  if (context_ != nullptr && std::ranges::any_of(files, is_special_file)) return context_;
  try {
    context_ = make_context(options);
    times_ = times;
  } catch (const std::runtime_error&) {
    if (context_ == nullptr) throw;
    // Perhaps not all of them have been replaced yet: the next handshake looks again.
  }
  return context_;
}

TlsClient::TlsClient(const Endpoint& endpoint) {
  assert(endpoint.tls != nullptr);
  const TlsOptions& tls = endpoint.tls->options;
  server_name_ = tls.server_name.empty() ? endpoint.host : tls.server_name;
  if (!endpoint.unix_path.empty()) server_name_ = tls.server_name;
  if (server_name_.empty() && !tls.insecure) {
    refuse(endpoint, "a server name is needed, to compare the server's certificate with");
  }
  if (server_name_.size() > kMaxNameBytes) {
    refuse(endpoint, "the server name has " + std::to_string(server_name_.size()) +
                         " bytes, at most " + std::to_string(kMaxNameBytes));
  }
  error_code is_name;
  boost::asio::ip::make_address(server_name_, is_name);
  name_is_address_ = !is_name;
  // No certificate names a zone of this machine, and OpenSSL takes no address with one.
  if (name_is_address_) server_name_.resize(std::min(server_name_.find('%'), server_name_.size()));
  try {
    endpoint.tls->current();
  } catch (const std::runtime_error& error) {
    refuse(endpoint, error.what());
  }
}

void TlsClient::prepare(SSL* ssl) const {
  bool named = true;
  if (name_is_address_) {
    named = ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(ssl), server_name_.c_str()) == 1;
  } else if (!server_name_.empty()) {
    ::SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    named = ::SSL_set1_host(ssl, server_name_.c_str()) == 1 &&
            SSL_set_tlsext_host_name(ssl, server_name_.c_str()) == 1;
  }
  // Without the name, any certificate of a trusted authority would be accepted.
  if (!named) throw std::bad_alloc();
}

std::string TlsClient::refusal(SSL* ssl) const {
  const long verdict = ::SSL_get_verify_result(ssl);
  if (verdict == X509_V_OK || ::SSL_get_verify_mode(ssl) == SSL_VERIFY_NONE) return {};
  return "its certificate is not accepted for " + server_name_ + ": " +
         ::X509_verify_cert_error_string(verdict);
}

}  // namespace sluice
