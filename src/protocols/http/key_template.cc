#include "protocols/http/key_template.h"

#include <algorithm>

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

/// Reads a template piece by piece.
class PieceReader {
 public:
  struct Piece {
    std::string_view text;
    bool is_field = false;
  };

  explicit PieceReader(std::string_view key_template) : rest_(key_template) {}

  /// False at the end, or at a mistake.
  bool next(Piece& piece) {
    if (rest_.empty()) return false;
    const std::size_t brace = rest_.find_first_of("{}");
    if (brace != 0) {
      piece = {take(std::min(brace, rest_.size())), false};
      return true;
    }
    const char kind = rest_.front();
    if (rest_.size() > 1 && rest_[1] == kind) {
      piece = {take(2).substr(1), false};
      return true;
    }
    const std::size_t end = rest_.find('}');
    if (kind == '}' || end == std::string_view::npos) {
      return fail("the key has a brace without its other; a brace itself is written twice");
    }
    const std::string_view field = rest_.substr(1, end - 1);
    if (!is_field(field)) return fail(unknown_field(field));
    if (++fields_ > kMaxKeyFields) {
      return fail("the key has more than " + std::to_string(kMaxKeyFields) + " fields");
    }
    piece = {field, true};
    take(end + 1);
    return true;
  }

  const std::optional<TemplateMistake>& mistake() const { return mistake_; }

 private:
  std::string_view take(std::size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    at_ += size;
    return taken;
  }
  bool fail(std::string sentence) {
    mistake_ = TemplateMistake{std::move(sentence), at_};
    return false;
  }

  std::string_view rest_;
  std::size_t at_ = 0;
  std::size_t fields_ = 0;
  std::optional<TemplateMistake> mistake_;
};

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
  PieceReader pieces(key_template);
  PieceReader::Piece piece;
  while (pieces.next(piece)) {
    if (piece.is_field) {
      append_key_field(piece.text, request, arena, output);
    } else {
      output += piece.text;
    }
  }
  if (pieces.mistake()) throw Problem{.detail = pieces.mistake()->sentence};
}

std::optional<TemplateMistake> find_mistake(std::string_view key_template) {
  if (is_field(key_template)) {
    return TemplateMistake{"all requests would have the same key; did you mean {" +
                           std::string(key_template) + "}?"};
  }
  PieceReader pieces(key_template);
  PieceReader::Piece piece;
  while (pieces.next(piece)) {
  }
  return pieces.mistake();
}

}  // namespace sluice::http
