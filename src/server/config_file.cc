#include "server/config_file.h"

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/number_text.h"
#include "core/read_number.h"
#include "limiter/open_store.h"
#include "net/address.h"
#include "net/stream_server.h"
#include "server/limits_file.h"
#include "server/protocols.h"
#include "server/tls_config.h"
#include "server/users_config.h"
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

constexpr std::string_view kAddresses = "127.0.0.1:6380 or unix:/run/sluice.sock";

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

void read_listen(const YamlFile& file, const YamlMember& member, ConfigFile& config) {
  auto& listen = config.listen.emplace();
  std::set<std::string> taken;
  const auto known = protocol_names();
  if (!member.value.IsMap()) {
    file.fail_value(member, "'listen' must be a map of protocols to addresses");
  }
  for (const YamlMember& protocol : file.members(member.value, "'listen'", known)) {
    std::vector<ServedAddress>& addresses = listen[protocol.name];
    for (const YamlMember& item : file.items(protocol)) {
      addresses.push_back(read_address(file, item, taken));
    }
  }
}

void read_all_tls(const YamlFile& file, const YamlMember& member, ConfigFile& config) {
  config.tls = read_tls(file, member);
}

void read_store(const YamlFile& file, const YamlMember& member, ConfigFile& config) {
  std::string url = file.text(member, "memory:");
  if (url == "memory") url = "memory:";
  try {
    check_store_url(url);
  } catch (const StoreError& error) {
    file.fail_value(member, error.what());
  }
  config.store = std::move(url);
}

void read_drain(const YamlFile& file, const YamlMember& member, ConfigFile& config) {
  using std::chrono::milliseconds;
  config.drain = std::chrono::ceil<milliseconds>(file.duration(member, milliseconds(0), kMaxDrain));
}

void read_max_client_bytes(const YamlFile& file, const YamlMember& member, ConfigFile& config) {
  std::size_t& bytes = config.max_client_bytes.emplace();
  const std::string text = file.text(member, std::to_string(kMaxClientBytes));
  if (read_number(text, bytes) && bytes >= kLeastClientBytes) return;
  file.fail_value(member, "'max_client_bytes' must be a number of bytes, at least " +
                              std::to_string(kLeastClientBytes));
}

void read_snapshot(const YamlFile& file, const YamlMember& member, ConfigFile& config) {
  constexpr std::array<std::string_view, 2> kNames{"file", "every"};
  SnapshotOptions& snapshot = config.snapshot.emplace();
  for (const YamlMember& each : file.members(member.value, "'snapshot'", kNames)) {
    if (each.name == "file") {
      snapshot.file = file.text(each, "/var/lib/sluice/snapshot");
    } else {
      snapshot.every = file.duration(each, kLeastSnapshotEvery, kMostSnapshotEvery);
    }
  }
  if (snapshot.file.empty()) file.fail_value(member, "'snapshot' has no 'file'");
}

void read_log(const YamlFile& file, const YamlMember& member, ConfigFile& config) {
  constexpr std::array<std::string_view, 3> kNames{"format", "level", "slow"};
  for (const YamlMember& each : file.members(member.value, "'log'", kNames)) {
    if (each.name == "format") {
      config.log_format = static_cast<LogFormat>(file.choice(each, kLogFormats));
    } else if (each.name == "level") {
      config.log_level = static_cast<LogLevel>(file.choice(each, kLogLevels));
    } else if (file.is_no(each)) {
      config.log_slow = SlowDecisions::kNever;
    } else {
      config.log_slow =
          file.duration(each, std::chrono::microseconds(1), std::chrono::hours(1), ", or no");
    }
  }
}

void read_expressions(const YamlFile& file, const YamlMember& member, ConfigFile& config) {
  config.limits.expressions = file.yes_or_no(member);
}

void read_trusted_proxies(const YamlFile& file, const YamlMember& member, ConfigFile& config) {
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
    config.client_rules.client_ip = ClientIp({.trusted_proxies = std::move(proxies)});
  } catch (const std::invalid_argument& error) {
    file.fail_value(member, error.what());
  }
}

void read_headers(const YamlFile& file, const YamlMember& member, ConfigFile& config) {
  try {
    config.client_rules.header_style = header_style(file.text(member, "ietf-11"));
  } catch (const std::invalid_argument& error) {
    file.fail_value(member, error.what());
  }
}

void read_all_users(const YamlFile& file, const YamlMember& member, ConfigFile& config) {
  config.users = read_users(file, member);
  config.has_empty_users = config.users.empty();
}

void read_named_limits(const YamlFile& file, const YamlMember& member, ConfigFile& config) {
  config.limits.named = read_limits(file, member);
}

struct Row {
  std::string_view name;
  void (*read)(const YamlFile& file, const YamlMember& member, ConfigFile& config);
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
    {"users", read_all_users},
    {"trusted_proxies", read_trusted_proxies},
    {"headers", read_headers},
    {"limits", read_named_limits},
});

ConfigFile read_config(const YamlFile& file) {
  std::array<std::string_view, kRows.size()> names;
  std::ranges::transform(kRows, names.begin(), &Row::name);
  ConfigFile config;
  for (const YamlMember& member : file.members(file.root(), "the file", names)) {
    std::ranges::find(kRows, member.name, &Row::name)->read(file, member, config);
  }
  return config;
}

}  // namespace

ConfigFile parse_config(std::string_view yaml, const std::string& path) {
  return read_config({std::string(yaml), path});
}

ConfigFile read_config_file(const std::string& path) {
  return read_config(YamlFile::open(path));
}

std::string describe(const ConfigFile& config) {
  std::string line = counted(config.limits.named.size(), "named limit");
  if (!config.limits.expressions) line += ", no expressions";
  if (!config.users.empty()) line += ", " + counted(config.users.size(), "user");
  if (config.listen) {
    for (const auto& [protocol, addresses] : *config.listen) {
      line += ", " + counted(addresses.size(), protocol + " listener");
    }
  }
  if (config.snapshot) line += ", a snapshot";
  if (config.store) line += ", store " + StoreUrl(*config.store).text();
  return line;
}

}  // namespace sluice
