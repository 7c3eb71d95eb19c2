#pragma once

#include "net/tls_server.h"
#include "server/yaml_file.h"

namespace sluice {

/// Reads the member `tls` of the server's file, or of one of its addresses:
///
///     tls: {cert: server.pem, key: server.key, client_ca: clients.pem}
///
/// or `tls: no`, which gives files without a certificate. Relative paths begin at the folder of the
/// server's file. Does not open these files: the server watches also those that are not there yet.
/// Throws ConfigError "PATH:LINE:COLUMN: sentence" at a mistake.
TlsServerFiles read_tls(const YamlFile& file, const YamlMember& member);

}  // namespace sluice
