#include "replay/key_template.h"

#include <stdexcept>

#include "replay/text.h"

namespace sluice::replay {
namespace {

[[noreturn]] void fail(std::string_view text, const std::string& error) {
  throw std::invalid_argument("key template \"" + printable(text, kTypedColumns) + "\": " + error);
}

}  // namespace

KeyTemplate::KeyTemplate(std::string_view text) : text_(text) {
  if (text.size() > kMaxLineBytes) fail(text, "it is longer than 1 MiB");
  std::string literal;
  const auto end_literal = [&] {
    if (!literal.empty()) pieces_.push_back({.text = std::move(literal)});
    literal.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c != '{' && c != '}') {
      literal += c;
      continue;
    }
    const std::string where = " at character " + std::to_string(i + 1);
    if (i + 1 < text.size() && text[i + 1] == c) {
      literal += c;
      ++i;
      continue;
    }
    if (c == '}') fail(text, "a } without its {" + where + " (write }} for a brace)");
    const std::size_t close = text.find('}', i);
    if (close == std::string_view::npos) {
      fail(text, "a { without its }" + where + " (write {{ for a brace)");
    }
    const std::string_view name = text.substr(i + 1, close - i - 1);
    if (name.empty()) fail(text, "a field without a name" + where);
    end_literal();
    pieces_.push_back({.text = std::string(name), .is_field = true});
    i = close;
  }
  end_literal();
}

void KeyTemplate::bind(LineReader& reader) {
  const bool is_constant = pieces_.size() == 1 && !pieces_[0].is_field;
  if (is_constant && reader.knows(pieces_[0].text)) {
    fail(text_, "all requests would have the same key; did you mean {" +
                    printable(pieces_[0].text, kTypedColumns) + "}?");
  }
  for (Piece& piece : pieces_) {
    if (!piece.is_field) continue;
    const auto slot = reader.slot(piece.text);
    if (!slot) {
      fail(text_, "there is no field {" + printable(piece.text, kTypedColumns) + "}; there are " +
                      reader.known_fields());
    }
    piece.slot = *slot;
  }
}

}  // namespace sluice::replay
