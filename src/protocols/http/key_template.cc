#include "protocols/http/key_template.h"

#include <algorithm>

#include "core/template_piece.h"
#include "protocols/http/query.h"

namespace sluice::http {
namespace {

constexpr std::string_view kHeader = "header:";
constexpr std::string_view kQuery = "query:";

std::string unknown_field(std::string_view field) {
  return "the key has no field {" + std::string(field) +
         "}: there are {ip}, {header:Name}, {query:name}, {method}, {path} and {host}";
}

bool is_field(std::string_view field) {
  for (const std::string_view kind : {kHeader, kQuery}) {
    if (field.starts_with(kind)) return field.size() > kind.size();
  }
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

void append_key_field(std::string_view field, const OriginalRequest& request, Arena& arena,
                      std::string& output) {
  if (!is_field(field)) throw Problem{.detail = unknown_field(field)};
  if (field == "ip") {
    output += request.client_ip();
  } else if (field == "method") {
    output += request.method();
  } else if (field == "path") {
    output += request.path();
  } else if (field == "host") {
    output += request.host();
  } else if (field.starts_with(kHeader)) {
    output += request.header(field.substr(kHeader.size()));
  } else {
    output += query_value(request.query(), field.substr(kQuery.size()), arena);
  }
}

void append_key(std::string_view key_template, const OriginalRequest& request, Arena& arena,
                std::string& output) {
  const auto mistake = visit_pieces(key_template, [&](const TemplatePiece& piece) {
    if (piece.kind == TemplatePiece::Kind::kField) {
      append_key_field(piece.text, request, arena, output);
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
