#pragma once

#include <boost/asio/ssl/context.hpp>
#include <string>

// Includes Boost.Asio, which compiles slowly: for the .cc files of this module only.

namespace sluice {

/// Makes `context` trust the certificate authorities of a PEM file. Throws std::runtime_error, one
/// sentence that names the file, where it cannot be used.
void load_authorities(boost::asio::ssl::context& context, const std::string& file);

/// Gives `context` the certificate of a PEM file, with the chain behind it, and its private key,
/// which must have no passphrase; without a key file it is in the same file. Throws as
/// load_authorities() does.
void load_certificate(boost::asio::ssl::context& context, const std::string& certificate_file,
                      const std::string& key_file);

}  // namespace sluice
