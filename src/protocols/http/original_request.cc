#include "protocols/http/original_request.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "core/normal_uri.h"

namespace sluice::http {

std::string_view OriginalRequest::forwarded(std::string_view name,
                                            std::string_view other_name) const {
  if (!context_.peer.is_trusted) return {};
  // A proxy that sends one of these may omit another, and pass on X-Original- headers of its
  // client.
  static constexpr std::string_view kForwarded[] = {"X-Forwarded-Method", "X-Forwarded-Host",
                                                    "X-Forwarded-Uri"};
  const Message& message = context_.message;
  const bool is_forwarded =
      std::ranges::any_of(kForwarded, [&](auto field) { return message.has_field(field); });
  return message.field(is_forwarded ? name : other_name);
}

std::string_view OriginalRequest::method() const {
  const std::string_view method = forwarded("X-Forwarded-Method", "X-Original-Method");
  return method.empty() ? context_.message.method : method;
}

std::string OriginalRequest::host() const {
  const std::string_view host = forwarded("X-Forwarded-Host", "X-Original-Host");
  std::string name;
  append_normal_host(host.empty() ? context_.message.host : host, name);
  return name;
}

std::string_view OriginalRequest::uri() const {
  if (!target_.empty()) return target_;
  std::string_view uri = forwarded("X-Forwarded-Uri", "X-Original-Uri");
  if (uri.empty()) uri = forwarded({}, "X-Original-URL");
  return uri.empty() ? context_.message.target : uri;
}

std::string OriginalRequest::path() const {
  std::string path;
  append_normal_path(uri(), path);
  return path;
}

std::string_view OriginalRequest::query() const {
  const std::string_view whole = uri();
  const std::size_t mark = whole.find('?');
  return mark == std::string_view::npos ? std::string_view() : whole.substr(mark + 1);
}

std::string OriginalRequest::client_ip() const {
  boost::container::small_vector<std::string_view, 4> lines;
  for (const HeaderField& field : context_.message.fields) {
    if (equals_ignoring_case(field.name, "X-Forwarded-For")) lines.push_back(field.value);
  }
  return context_.thread.rules->client_ip.key(context_.peer.address, {lines.data(), lines.size()});
}

std::string_view OriginalRequest::header(std::string_view name) const {
  return context_.message.only_field(name);
}

}  // namespace sluice::http
