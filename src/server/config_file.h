#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/log.h"
#include "server/served_address.h"
#include "server/snapshot_keeper.h"
#include "service/access.h"
#include "service/served_limits.h"
#include "service/server_context.h"

namespace sluice {

/// The contents of the server's file (docs/configuration.md). Members that the file does not have
/// are empty.
struct ConfigFile {
  /// If the file has `listen`, a protocol without a member there is not served.
  std::optional<ServedAddresses> listen;
  /// For the addresses without files of their own.
  std::optional<TlsServerFiles> tls;
  /// The store's URL, as open_store() takes it.
  std::optional<std::string> store;
  std::optional<std::chrono::milliseconds> drain;
  std::optional<std::size_t> max_client_bytes;
  std::optional<SnapshotOptions> snapshot;
  std::optional<LogFormat> log_format;
  std::optional<LogLevel> log_level;
  /// SlowDecisions::kNever for none.
  std::optional<std::chrono::nanoseconds> log_slow;
  std::vector<User> users;
  /// Whether the file has `users` without any.
  bool has_empty_users = false;
  ClientRules client_rules;
  ServedLimits limits;
};

inline constexpr std::chrono::hours kMaxDrain{1};
/// Of max_client_bytes: with less, even a single connection could not have all that it may hold. A
/// fifth of it must suffice for a list of 1 MiB: its body, in a string that doubles, and as much
/// again parsed, some 4.2 MiB.
inline constexpr std::size_t kLeastClientBytes = std::size_t{32} * 1024 * 1024;

/// Reads the server's file. Throws ConfigError "PATH:LINE:COLUMN: sentence" at the first mistake.
ConfigFile parse_config(std::string_view yaml, const std::string& path);
/// The same, from the file. Also throws ConfigError if the file cannot be read.
ConfigFile read_config_file(const std::string& path);

/// The contents of the file, in one line.
std::string describe(const ConfigFile& config);

}  // namespace sluice
