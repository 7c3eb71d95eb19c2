#pragma once

#include <filesystem>

namespace sluice::servers {

/// PEM files of a certificate authority and of what it signed.
struct Certificates {
  std::filesystem::path ca;
  /// Valid for 127.0.0.1 and localhost.
  std::filesystem::path server;
  std::filesystem::path server_key;
  std::filesystem::path client;
  std::filesystem::path client_key;
  /// Another authority, which signed none of them.
  std::filesystem::path stranger_ca;
};

/// Made by the `openssl` program at the first call, removed when the process ends. Throws
/// std::runtime_error where that fails. Thread-safe.
const Certificates& certificates();

}  // namespace sluice::servers
