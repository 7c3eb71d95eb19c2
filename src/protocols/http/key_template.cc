#include "protocols/http/key_template.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "core/ascii.h"
#include "core/normal_uri.h"
#include "core/template_piece.h"
#include "protocols/http/query.h"

namespace sluice::http {
namespace {

constexpr std::string_view kHeader = "header:";
constexpr std::string_view kQuery = "query:";

bool is_header_name(std::string_view text) {
  static constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_letter_or_digit(c) || kOthers.find(c) != std::string_view::npos;
  });
}

std::string unknown_field(std::string_view field) {
  if (field.starts_with(kHeader) && field.size() > kHeader.size()) {
    return "no header has the name \"" + std::string(field.substr(kHeader.size())) + "\"";
  }
  return "the key has no field {" + std::string(field) +
         "}: there are {ip}, {header:Name}, {query:name}, {method}, {path} and {host}";
}

bool is_field(std::string_view field) {
  if (field.starts_with(kHeader)) return is_header_name(field.substr(kHeader.size()));
  if (field.starts_with(kQuery)) return field.size() > kQuery.size();
  return std::ranges::find(kPlainFields, field) != kPlainFields.end();
}

// Calls visit(piece) for each piece of a template, until there is a mistake.
template <class Visit>
std::optional<TemplateMistake> visit_pieces(std::string_view key_template, Visit visit) {
  std::size_t fields = 0;
  for (std::string_view rest = key_template; !rest.empty();) {
    const std::size_t at = key_template.size() - rest.size();
    const TemplatePiece piece = take_piece(rest);
    if (piece.kind == TemplatePiece::Kind::kUnmatched) {
      return {{"the key has a brace without its other; a brace itself is written twice", at}};
    }
    if (piece.kind == TemplatePiece::Kind::kField) {
      if (!is_field(piece.text)) return {{unknown_field(piece.text), at}};
      if (++fields > kMaxKeyFields) {
        return {{"the key has more than " + std::to_string(kMaxKeyFields) + " fields", at}};
      }
    }
    visit(piece);
  }
  return std::nullopt;
}

}  // namespace

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
  return message.only_field(is_forwarded ? name : other_name);
}

std::string_view OriginalRequest::uri() const {
  if (!target_.empty()) return target_;
  std::string_view uri = forwarded("X-Forwarded-Uri", "X-Original-Uri");
  if (uri.empty()) uri = forwarded({}, "X-Original-URL");
  return uri.empty() ? context_.message.target : uri;
}

// nginx is often told to send $scheme://$http_host$request_uri as X-Original-URL, and no host. A
// URI that is a whole URL may be as the client has sent it, with any authority.
std::string_view OriginalRequest::host() const {
  const std::string_view host = forwarded("X-Forwarded-Host", "X-Original-Host");
  if (!host.empty()) return host;
  const std::string_view authority = authority_of(forwarded({}, "X-Original-URL"));
  return authority.empty() ? context_.message.host : authority;
}

std::string OriginalRequest::client_ip() const {
  boost::container::small_vector<std::string_view, 4> lines;
  for (const HeaderField& field : context_.message.fields) {
    if (equals_ignoring_case(field.name, "X-Forwarded-For")) lines.push_back(field.value);
  }
  return context_.thread.rules->client_ip.key(context_.peer.address, {lines.data(), lines.size()});
}

void OriginalRequest::append_field(std::string_view field, std::string& output) const {
  const Message& message = context_.message;
  if (!is_field(field)) throw Problem{.detail = unknown_field(field)};
  if (field == "ip") {
    output += client_ip();
  } else if (field == "method") {
    const std::string_view method = forwarded("X-Forwarded-Method", "X-Original-Method");
    output += method.empty() ? message.method : method;
  } else if (field == "path") {
    append_normal_path(uri(), output);
  } else if (field == "host") {
    append_normal_host(host(), output);
  } else if (field.starts_with(kHeader)) {
    output += message.only_field(field.substr(kHeader.size()));
  } else {
    output += query_value(query_of(uri()), field.substr(kQuery.size()), *context_.thread.arena);
  }
}

void OriginalRequest::append_key(std::string_view key_template, std::string& output) const {
  const auto mistake = visit_pieces(key_template, [&](const TemplatePiece& piece) {
    if (piece.kind == TemplatePiece::Kind::kField) {
      append_field(piece.text, output);
    } else {
      output += piece.text;
    }
  });
  if (mistake) throw Problem{.detail = mistake->sentence};
}

std::optional<TemplateMistake> find_mistake(std::string_view key_template) {
  if (is_field(key_template)) {
    return TemplateMistake{"all requests would have the same key; did you mean {" +
                           std::string(key_template) + "}?"};
  }
  return visit_pieces(key_template, [](const TemplatePiece&) {});
}

}  // namespace sluice::http
