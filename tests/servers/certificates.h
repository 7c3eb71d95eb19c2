#pragma once

#include <filesystem>

namespace sluice::servers {

/// PEM files of a certificate authority and of the certificates that it signed.
struct Certificates {
  std::filesystem::path ca;
  /// Valid for 127.0.0.1 and localhost.
  std::filesystem::path server;
  std::filesystem::path server_key;
  std::filesystem::path client;
  std::filesystem::path client_key;
  /// Another authority, which signed none of these.
  std::filesystem::path stranger_ca;
};

/// Makes them with the `openssl` program at the first call; they are removed when the process ends.
/// Throws std::runtime_error if that fails. Thread-safe.
const Certificates& certificates();

}  // namespace sluice::servers
