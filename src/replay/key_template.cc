#include "replay/key_template.h"

#include <algorithm>
#include <stdexcept>

#include "core/template_piece.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

[[noreturn]] void fail(std::string_view text, const std::string& error) {
  throw std::invalid_argument("key template \"" + printable(text, kTypedColumns) + "\": " + error);
}

/// "ip, ident, user", for an error message.
std::string list_of(const std::vector<std::string_view>& names) {
  constexpr std::size_t kMaxListed = 20;
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == kMaxListed) return out + " and " + std::to_string(names.size() - i) + " more";
    out.append(i == 0 ? "" : ", ").append(printable(names[i], kFieldColumns));
  }
  return out;
}

}  // namespace

KeyTemplate::KeyTemplate(std::string_view text) : text_(text) {
  if (text.size() > kMaxLineBytes) fail(text, "it is longer than 1 MiB");
  for (std::string_view rest = text; !rest.empty();) {
    const std::string where = " at character " + std::to_string(text.size() - rest.size() + 1);
    const TemplatePiece piece = take_piece(rest);
    const bool is_field = piece.kind == TemplatePiece::Kind::kField;
    if (piece.kind == TemplatePiece::Kind::kUnmatched) {
      fail(text, piece.text == "}" ? "a } without its {" + where + " (write }} for a brace)"
                                   : "a { without its }" + where + " (write {{ for a brace)");
    }
    if (is_field && piece.text.empty()) fail(text, "a field without a name" + where);
    if (is_field || pieces_.empty() || pieces_.back().is_field) {
      pieces_.push_back({.text = std::string(piece.text), .is_field = is_field});
    } else {
      pieces_.back().text += piece.text;
    }
  }
}

void KeyTemplate::bind(LineReader& reader) {
  const std::vector<std::string_view> names = reader.names();
  const bool is_constant = pieces_.size() == 1 && !pieces_[0].is_field;
  if (is_constant && std::ranges::find(names, pieces_[0].text) != names.end()) {
    fail(text_, "all requests would have the same key; did you mean {" +
                    printable(pieces_[0].text, kTypedColumns) + "}?");
  }
  for (Piece& piece : pieces_) {
    if (!piece.is_field) continue;
    const auto slot = reader.slot(piece.text);
    if (!slot) {
      fail(text_, "there is no field {" + printable(piece.text, kTypedColumns) + "}; there are " +
                      list_of(names));
    }
    piece.slot = *slot;
    piece.is_target = reader.is_target(*slot);
  }
}

}  // namespace sluice::replay
