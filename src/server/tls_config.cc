#include "server/tls_config.h"

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

namespace sluice {
namespace {

constexpr std::array<std::string_view, 3> kTlsMembers{"cert", "key", "client_ca"};

}  // namespace

TlsServerFiles read_tls(const YamlFile& file, const YamlMember& member) {
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

}  // namespace sluice
