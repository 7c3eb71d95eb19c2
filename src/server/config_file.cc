#include "server/config_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/ascii.h"
#include "core/number_text.h"
#include "core/read_number.h"
#include "limiter/open_store.h"
#include "net/address.h"
#include "net/stream_server.h"
#include "server/limits_file.h"
#include "server/protocols.h"
#include "server/yaml_file.h"
#include "service/slow_decisions.h"
#include "sluice/store.h"

namespace sluice {
namespace {

std::vector<std::string_view> protocol_names() {
  std::vector<std::string_view> names;
  for (const ServedProtocol& protocol : protocols()) names.emplace_back(protocol.name);
  return names;
}

constexpr std::chrono::hours kMaxDrain{1};
// With less, even a single connection could not have all that it may hold. A fifth of it must
// suffice for a list of 1 MiB: its body, in a string that doubles, and as much again parsed, some
// 4.2 MiB.
constexpr std::size_t kLeastClientBytes = std::size_t{32} * 1024 * 1024;
constexpr std::size_t kMaxUsers = 1'000;
constexpr std::string_view kHash = "sha256:";
constexpr std::size_t kHashDigits = 64;

constexpr std::string_view kAddresses = "127.0.0.1:6380 or unix:/run/sluice.sock";

/// The member `tls` of the file, or of one of its addresses:
///
///     tls: {cert: server.pem, key: server.key, client_ca: clients.pem}
///
/// or `tls: no`, which gives files without a certificate. Relative paths begin at the folder of the
/// server's file. Does not open these files: the server watches also those that are not there yet.
TlsServerFiles read_tls(const YamlFile& file, const YamlMember& member) {
  constexpr std::array<std::string_view, 3> kTlsMembers{"cert", "key", "client_ca"};
  if (file.is_no(member)) return {};
  if (!member.value.IsMap()) {
    file.fail_value(member, "'tls' must be no, or a map with 'cert'");
  }
  TlsServerFiles files;
  const std::filesystem::path folder = std::filesystem::path(file.path()).parent_path();
  for (const YamlMember& path : file.members(member.value, "'tls'", kTlsMembers)) {
    std::string& its = path.name == "cert"  ? files.certificate
                       : path.name == "key" ? files.key
                                            : files.client_ca;
    its = folder / file.text(path, "server.pem");
  }
  if (files.certificate.empty()) file.fail_value(member, "'tls' needs 'cert', a PEM file");
  return files;
}

/// `taken`: the addresses that the file has named so far.
std::string read_address_text(const YamlFile& file, const YamlMember& member,
                              std::set<std::string>& taken) {
  std::string text = file.text(member, kAddresses);
  const ParsedAddress parsed = parse_address(text);
  if (!parsed.address) file.fail_value(member, parsed.error);
  const bool is_any_port =
      parsed.address->family != Address::Family::kUnix && parsed.address->port == 0;
  if (!is_any_port && !taken.insert(parsed.address->text()).second) {
    file.fail_value(member, "the address " + parsed.address->text() + " is there twice");
  }
  return text;
}

/// An address is a text, or a map with the members address and tls.
ServedAddress read_address(const YamlFile& file, const YamlMember& item,
                           std::set<std::string>& taken) {
  constexpr std::array<std::string_view, 2> kAddressMembers{"address", "tls"};
  if (!item.value.IsMap()) return read_address_text(file, item, taken);
  ServedAddress address = "";
  for (const YamlMember& member : file.members(item.value, "an address", kAddressMembers)) {
    if (member.name == "tls") {
      address.tls = read_tls(file, member);
    } else {
      address.text = read_address_text(file, member, taken);
    }
  }
  if (address.text.empty()) file.fail_value(item, "'address' is missing here");
  return address;
}

// A protocol that the member does not name is not served.
void read_listen(const YamlFile& file, const YamlMember& member, ServerOptions& options) {
  options.addresses.clear();
  std::set<std::string> taken;
  const auto known = protocol_names();
  if (!member.value.IsMap()) {
    file.fail_value(member, "'listen' must be a map of protocols to addresses");
  }
  for (const YamlMember& protocol : file.members(member.value, "'listen'", known)) {
    std::vector<ServedAddress>& addresses = options.addresses[protocol.name];
    for (const YamlMember& item : file.items(protocol)) {
      addresses.push_back(read_address(file, item, taken));
    }
  }
}

void read_all_tls(const YamlFile& file, const YamlMember& member, ServerOptions& options) {
  options.tls = read_tls(file, member);
}

void read_store(const YamlFile& file, const YamlMember& member, ServerOptions& options) {
  std::string url = file.text(member, "memory:");
  if (url == "memory") url = "memory:";
  try {
    check_store_url(url);
  } catch (const StoreError& error) {
    file.fail_value(member, error.what());
  }
  options.store = std::move(url);
}

void read_drain(const YamlFile& file, const YamlMember& member, ServerOptions& options) {
  using std::chrono::milliseconds;
  options.drain =
      std::chrono::ceil<milliseconds>(file.duration(member, milliseconds(0), kMaxDrain));
}

void read_max_client_bytes(const YamlFile& file, const YamlMember& member, ServerOptions& options) {
  std::size_t& bytes = options.max_client_bytes;
  const std::string text = file.text(member, std::to_string(kMaxClientBytes));
  if (read_number(text, bytes) && bytes >= kLeastClientBytes) return;
  file.fail_value(member, "'max_client_bytes' must be a number of bytes, at least " +
                              std::to_string(kLeastClientBytes));
}

void read_snapshot(const YamlFile& file, const YamlMember& member, ServerOptions& options) {
  constexpr std::array<std::string_view, 2> kNames{"file", "every"};
  SnapshotOptions& snapshot = options.snapshot;
  for (const YamlMember& each : file.members(member.value, "'snapshot'", kNames)) {
    if (each.name == "file") {
      snapshot.file = file.text(each, "/var/lib/sluice/snapshot");
    } else {
      snapshot.every = file.duration(each, kLeastSnapshotEvery, kMostSnapshotEvery);
    }
  }
  if (snapshot.file.empty()) file.fail_value(member, "'snapshot' has no 'file'");
}

void read_log(const YamlFile& file, const YamlMember& member, ServerOptions& options) {
  constexpr std::array<std::string_view, 3> kNames{"format", "level", "slow"};
  for (const YamlMember& each : file.members(member.value, "'log'", kNames)) {
    if (each.name == "format") {
      options.log.format = static_cast<LogFormat>(file.choice(each, kLogFormats));
    } else if (each.name == "level") {
      options.log.level = static_cast<LogLevel>(file.choice(each, kLogLevels));
    } else if (file.is_no(each)) {
      options.log.slow = SlowDecisions::kNever;
    } else {
      options.log.slow =
          file.duration(each, std::chrono::microseconds(1), std::chrono::hours(1), ", or no");
    }
  }
}

void read_expressions(const YamlFile& file, const YamlMember& member, ServerOptions& options) {
  options.limits.expressions = file.yes_or_no(member);
}

void read_trusted_proxies(const YamlFile& file, const YamlMember& member, ServerOptions& options) {
  std::vector<std::string> proxies;
  for (const YamlMember& item : file.items(member)) {
    proxies.push_back(file.text(item, "10.0.0.0/8 or unix:"));
    try {
      const ClientIp valid({.trusted_proxies = {proxies.back()}});
    } catch (const std::invalid_argument& error) {
      file.fail_value(item, error.what());
    }
  }
  try {
    options.client_rules.client_ip = ClientIp({.trusted_proxies = std::move(proxies)});
  } catch (const std::invalid_argument& error) {
    file.fail_value(member, error.what());
  }
}

void read_headers(const YamlFile& file, const YamlMember& member, ServerOptions& options) {
  try {
    options.client_rules.header_style = header_style(file.text(member, "ietf-11"));
  } catch (const std::invalid_argument& error) {
    file.fail_value(member, error.what());
  }
}

std::string read_hash(const YamlFile& file, const YamlMember& member) {
  const std::string text = file.text(member, "sha256:…");
  std::string digits = text.starts_with(kHash) ? text.substr(kHash.size()) : "";
  std::ranges::transform(digits, digits.begin(), to_small);
  if (digits.size() != kHashDigits || digits.find_first_not_of(kHexDigits) != std::string::npos) {
    file.fail_value(member,
                    "'token' must be sha256: and 64 hexadecimal digits, as sluice token prints it");
  }
  return digits;
}

// Whether a blank stands between attributes: in a value, the comma before it would be escaped.
bool separates_by_blanks(std::string_view subject) {
  std::size_t at = subject.find(", ");
  while (at != std::string_view::npos && at != 0 && subject[at - 1] == '\\') {
    at = subject.find(", ", at + 1);
  }
  return at != std::string_view::npos;
}

// A subject in another form would be that of no certificate: openssl also prints "CN = gateway",
// and Java "CN=gateway, O=Example".
std::string read_subject(const YamlFile& file, const YamlMember& member) {
  const std::string text = file.text(member, "CN=gateway");
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string_view type = std::string_view(text).substr(0, equals);
  const bool has_type = !type.empty() && std::ranges::all_of(type, is_in_names);
  if (!has_type || equals == text.size() || text[equals + 1] == ' ' || separates_by_blanks(text)) {
    file.fail_value(
        member, "'certificate' must be a subject as RFC 2253 writes it: 'CN=gateway,O=Example'");
  }
  return text;
}

Roles read_roles(const YamlFile& file, const YamlMember& member) {
  constexpr std::array kRoles = std::to_array<std::pair<std::string_view, Role>>(
      {{"check", kCheckRole}, {"admin", kAdminRole}, {"metrics", kMetricsRole}});
  Roles roles = kNoRole;
  for (const YamlMember& item : file.items(member)) {
    const std::string name = file.text(item, "check");
    const auto* const row = std::ranges::find(kRoles, name, &decltype(kRoles)::value_type::first);
    if (row == kRoles.end()) file.fail_value(item, "a role is check, admin or metrics");
    roles |= row->second;
  }
  return roles;
}

User read_user(const YamlFile& file, const YamlMember& item) {
  constexpr std::array<std::string_view, 4> kUserMembers{"name", "token", "certificate", "roles"};
  User user;
  for (const YamlMember& member : file.members(item.value, "a user", kUserMembers)) {
    if (member.name == "name") {
      user.name = file.text(member, "gateway");
      if (!is_user_name(user.name)) file.fail_value(member, std::string(kUserNames));
    } else if (member.name == "token") {
      user.token_sha256 = read_hash(file, member);
    } else if (member.name == "certificate") {
      user.certificate = read_subject(file, member);
    } else {
      user.roles = read_roles(file, member);
    }
  }
  if (user.name.empty() != user.token_sha256.empty() ||
      user.name.empty() == user.certificate.empty()) {
    file.fail(item.value, "a user has 'name' and 'token', or 'certificate'");
  }
  if (user.roles == kNoRole) file.fail(item.value, "a user needs 'roles': check, admin, metrics");
  return user;
}

// The member `users`, at most kMaxUsers; no sentence quotes a token:
//
//     users:
//       - {name: gateway, token: "sha256:…", roles: [check]}
//       - {certificate: "CN=gateway", roles: [check, admin, metrics]}
void read_users(const YamlFile& file, const YamlMember& member, ServerOptions& options) {
  if (!member.value.IsSequence()) file.fail_value(member, "'users' must be a list");
  std::vector<User>& users = options.users;
  std::set<std::string> taken;
  for (const YamlMember& item : file.items(member)) {
    User user = read_user(file, item);
    if (users.size() == kMaxUsers) file.fail_value(item, "there can be at most 1000 users");
    if (!taken.insert(user.name + "/" + user.certificate).second) {
      file.fail(item.value, "this user is there twice");
    }
    // A client may send its token alone, and has the roles of one user.
    if (!user.token_sha256.empty() && !taken.insert(user.token_sha256).second) {
      file.fail(item.value, "another user has the same token");
    }
    users.push_back(std::move(user));
  }
  options.has_empty_users = users.empty();
}

void read_named_limits(const YamlFile& file, const YamlMember& member, ServerOptions& options) {
  options.limits.named = read_limits(file, member);
}

struct Row {
  std::string_view name;
  void (*read)(const YamlFile& file, const YamlMember& member, ServerOptions& options);
};

// The members of the file. A new one is one row here and a description in docs/configuration.md.
constexpr std::array kRows = std::to_array<Row>({
    {"listen", read_listen},
    {"tls", read_all_tls},
    {"store", read_store},
    {"drain", read_drain},
    {"max_client_bytes", read_max_client_bytes},
    {"snapshot", read_snapshot},
    {"log", read_log},
    {"expressions", read_expressions},
    {"users", read_users},
    {"trusted_proxies", read_trusted_proxies},
    {"headers", read_headers},
    {"limits", read_named_limits},
});

ServerOptions read_config(const YamlFile& file) {
  std::array<std::string_view, kRows.size()> names;
  std::ranges::transform(kRows, names.begin(), &Row::name);
  ServerOptions options;
  for (const YamlMember& member : file.members(file.root(), "the file", names)) {
    std::ranges::find(kRows, member.name, &Row::name)->read(file, member, options);
  }
  return options;
}

}  // namespace

ServerOptions parse_config(std::string_view yaml, const std::string& path) {
  return read_config({std::string(yaml), path});
}

ServerOptions read_config_file(const std::string& path) {
  return read_config(YamlFile::open(path));
}

std::string summary_of(const ServerOptions& options) {
  const ServerOptions defaults;
  std::string line = counted(options.limits.named.size(), "named limit");
  if (!options.limits.expressions) line += ", no expressions";
  if (!options.users.empty()) line += ", " + counted(options.users.size(), "user");
  if (options.addresses != defaults.addresses) {
    for (const auto& [protocol, addresses] : options.addresses) {
      line += ", " + counted(addresses.size(), protocol + " listener");
    }
  }
  if (!options.snapshot.file.empty()) line += ", a snapshot";
  if (options.store != defaults.store) line += ", store " + StoreUrl(options.store).text();
  return line;
}

}  // namespace sluice
