#include "net/endpoint.h"

namespace sluice {

std::string Endpoint::text() const {
  if (!unix_path.empty()) return "unix:" + unix_path;
  const bool is_ipv6 = host.find(':') != std::string::npos;
  std::string text = is_ipv6 ? "[" + host + "]" : host;
  return text.append(":").append(std::to_string(port));
}

}  // namespace sluice
