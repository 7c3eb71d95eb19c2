#pragma once

#include <openssl/types.h>

namespace sluice {

/// What OpenSSL reads from and writes to: a non-blocking socket, which stays its owner's. Unlike
/// OpenSSL's own it never raises SIGPIPE, which is not a library's to ignore. Null where memory is
/// out.
BIO* make_tls_socket(int fd);

}  // namespace sluice
