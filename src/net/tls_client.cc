#include "net/tls_client.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cassert>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>

#include "net/tls_files.h"

namespace sluice {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;
using FileTimes = std::array<std::filesystem::file_time_type, 3>;

constexpr std::size_t kMaxNameBytes = TLSEXT_MAXLEN_host_name;

[[noreturn]] void refuse(const Endpoint& endpoint, const std::string& what) {
  throw std::runtime_error("TLS to " + endpoint.text() + ": " + what);
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

std::shared_ptr<ssl::context> make_context(const Endpoint& endpoint) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  ::SSL_CTX* const handle = context->native_handle();
  ::SSL_CTX_set_min_proto_version(handle, TLS1_2_VERSION);
  ::SSL_CTX_set_options(handle, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  context->set_verify_mode(endpoint.tls->insecure ? ssl::verify_none : ssl::verify_peer);
  try {
    load_files(*context, *endpoint.tls);
  } catch (const std::runtime_error& error) {
    refuse(endpoint, error.what());
  }
  return context;
}

/// When each file was changed last.
FileTimes times_of(const TlsOptions& tls) {
  FileTimes times{};
  std::error_code ignored;
  if (!tls.ca_file.empty()) times[0] = std::filesystem::last_write_time(tls.ca_file, ignored);
  if (!tls.certificate_file.empty()) {
    times[1] = std::filesystem::last_write_time(tls.certificate_file, ignored);
  }
  if (!tls.key_file.empty()) times[2] = std::filesystem::last_write_time(tls.key_file, ignored);
  return times;
}

std::mutex& files_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

/// What the files hold, for all clients with equal options: reading the system's certificates takes
/// tens of milliseconds, too long for a worker thread each time that a cluster changes.
struct TlsClient::Files {
  // Guarded by files_mutex().
  std::shared_ptr<ssl::context> context;
  FileTimes times;
};

std::shared_ptr<TlsClient::Files> TlsClient::shared_files(const Endpoint& endpoint) {
  const std::lock_guard lock(files_mutex());
  static std::map<TlsOptions, std::weak_ptr<Files>> all;  // Guarded by files_mutex().
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  if (const auto known = all.find(*endpoint.tls); known != all.end()) {
    if (auto files = known->second.lock()) return files;
  }
  const FileTimes times = times_of(*endpoint.tls);  // First: they may change meanwhile.
  auto files = std::make_shared<Files>(Files{make_context(endpoint), times});
  all[*endpoint.tls] = files;
  return files;
}

ssl::context& TlsClient::context() {
  const std::lock_guard lock(files_mutex());
  const FileTimes times = times_of(*endpoint_.tls);
  if (times != files_->times) {
    try {
      files_->context = make_context(endpoint_);
      files_->times = times;
    } catch (const std::runtime_error&) {
      // Perhaps not all of them have been replaced yet: the next handshake looks again.
    }
  }
  context_ = files_->context;
  return *context_;
}

TlsClient::TlsClient(const Endpoint& endpoint) : endpoint_(endpoint) {
  assert(endpoint.tls);
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
  error_code is_name;
  boost::asio::ip::make_address(server_name_, is_name);
  name_is_address_ = !is_name;
  // No certificate names a zone of this machine, and OpenSSL takes no address with one.
  if (name_is_address_) server_name_.resize(std::min(server_name_.find('%'), server_name_.size()));
  files_ = shared_files(endpoint);
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
