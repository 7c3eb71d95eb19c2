#include "net/tls_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <memory>
#include <stdexcept>

namespace sluice {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

/// `reason`: the first of OpenSSL's errors, which is the cause of the others. `content`: what the
/// file should have.
void require_file(const std::string& what, const error_code& reason, const char* content) {
  ::ERR_clear_error();
  if (!reason) return;
  const auto code = static_cast<unsigned long>(reason.value());
  const char* text = ::ERR_reason_error_string(code);
  const bool is_tls = reason.category() == boost::asio::error::get_ssl_category();
  std::string why = is_tls && text != nullptr ? text : reason.message();
  // OpenSSL says "no start line", or of a key "unsupported", which names neither.
  const bool has_none =
      (ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE) ||
      ERR_GET_LIB(code) == ERR_LIB_OSSL_DECODER;
  if (is_tls && has_none) why = std::string("it has no ") + content + " in PEM";
  throw std::runtime_error(what + " cannot be used: " + why);
}

}  // namespace

void load_authorities(ssl::context& context, const std::string& file) {
  error_code error;
  context.load_verify_file(file, error);
  require_file("the CA file " + file, error, "certificate");
}

void load_certificate(ssl::context& context, const std::string& certificate_file,
                      const std::string& key_file) {
  // A passphrase cannot be asked for. An empty one is tried.
  const auto is_asked_for = std::make_shared<bool>(false);
  context.set_password_callback([is_asked_for](std::size_t, ssl::context::password_purpose) {
    *is_asked_for = true;
    return "";
  });
  error_code error;
  context.use_certificate_chain_file(certificate_file, error);
  require_file("the certificate file " + certificate_file, error, "certificate");
  const std::string& key = key_file.empty() ? certificate_file : key_file;
  context.use_private_key_file(key, ssl::context::pem, error);
  if (error && *is_asked_for) {
    ::ERR_clear_error();
    throw std::runtime_error("the key in " + key +
                             " cannot be used: keys with a passphrase are not supported");
  }
  require_file("the key in " + key, error, "private key without a passphrase");
}

}  // namespace sluice
