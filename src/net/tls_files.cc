#include "net/tls_files.h"

#include <openssl/err.h>

#include <stdexcept>

namespace sluice {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

/// `reason`: the first of OpenSSL's errors, which is the cause of the others.
void require_file(const std::string& what, const error_code& reason) {
  ::ERR_clear_error();
  if (!reason) return;
  const char* text = ::ERR_reason_error_string(static_cast<unsigned long>(reason.value()));
  const bool is_tls = reason.category() == boost::asio::error::get_ssl_category();
  throw std::runtime_error(
      what + " cannot be used: " + (is_tls && text != nullptr ? text : reason.message()));
}

}  // namespace

void load_authorities(ssl::context& context, const std::string& file) {
  error_code error;
  context.load_verify_file(file, error);
  require_file("the CA file " + file, error);
}

void load_certificate(ssl::context& context, const std::string& certificate_file,
                      const std::string& key_file) {
  error_code error;
  context.use_certificate_chain_file(certificate_file, error);
  require_file("the certificate file " + certificate_file, error);
  // A passphrase cannot be asked for.
  context.set_password_callback([](std::size_t, ssl::context::password_purpose) { return ""; });
  const std::string& key = key_file.empty() ? certificate_file : key_file;
  context.use_private_key_file(key, ssl::context::pem, error);
  require_file("the key in " + key, error);
}

}  // namespace sluice
