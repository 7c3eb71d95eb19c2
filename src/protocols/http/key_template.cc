#include "protocols/http/key_template.h"

#include "protocols/http/query.h"

namespace sluice::http {
namespace {

constexpr std::string_view kHeader = "header:";
constexpr std::string_view kQuery = "query:";

}  // namespace

void append_key_field(std::string_view field, const OriginalRequest& request, Arena& arena,
                      std::string& output) {
  if (field == "ip") {
    output += request.client_ip();
  } else if (field == "method") {
    output += request.method();
  } else if (field == "path") {
    output += request.path();
  } else if (field == "host") {
    output += request.host();
  } else if (field.starts_with(kHeader) && field.size() > kHeader.size()) {
    output += request.header(field.substr(kHeader.size()));
  } else if (field.starts_with(kQuery) && field.size() > kQuery.size()) {
    output += query_value(request.query(), field.substr(kQuery.size()), arena);
  } else {
    throw Problem{.detail = "the key has no field {" + std::string(field) +
                            "}: there are {ip}, {header:Name}, {query:name}, {method}, {path} and "
                            "{host}"};
  }
}

void append_key(std::string_view key_template, const OriginalRequest& request, Arena& arena,
                std::string& output) {
  while (!key_template.empty()) {
    const std::size_t brace = key_template.find_first_of("{}");
    output += key_template.substr(0, brace);
    if (brace == std::string_view::npos) return;
    const char kind = key_template[brace];
    key_template.remove_prefix(brace + 1);
    if (key_template.starts_with(kind)) {
      output += kind;
      key_template.remove_prefix(1);
      continue;
    }
    const std::size_t end = key_template.find('}');
    if (kind == '}' || end == std::string_view::npos) {
      throw Problem{.detail =
                        "the key has a brace without its other; a brace itself is written "
                        "twice"};
    }
    append_key_field(key_template.substr(0, end), request, arena, output);
    key_template.remove_prefix(end + 1);
  }
}

}  // namespace sluice::http
