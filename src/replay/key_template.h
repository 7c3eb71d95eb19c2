#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "replay/record.h"

namespace sluice::replay {

/// How to make a key from a record: text with fields in braces, "{ip} {path}"; `{{` and `}}` stand
/// for a brace. A template without fields is a constant key.
class KeyTemplate {
 public:
  /// Throws std::invalid_argument, in one sentence, where a brace is unmatched, a field has no
  /// name, or the text is longer than kMaxLineBytes.
  explicit KeyTemplate(std::string_view text);

  /// Finds this reader's fields; call it before each file's first read(). Throws
  /// std::invalid_argument, in one sentence that lists the fields there are.
  void bind(LineReader& reader);

  /// Appends the key of a record that the bound reader has read.
  void append_key(const Record& record, std::string& out) const {
    for (const Piece& piece : pieces_) {
      out += piece.is_field ? record.fields[piece.slot] : std::string_view(piece.text);
    }
  }

  /// As given.
  const std::string& text() const { return text_; }

 private:
  struct Piece {
    /// A field's name, or literal text.
    std::string text;
    bool is_field = false;
    std::size_t slot = 0;
  };

  std::string text_;
  std::vector<Piece> pieces_;
};

}  // namespace sluice::replay
