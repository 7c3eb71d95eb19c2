#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/normal_uri.h"
#include "replay/record.h"

namespace sluice::replay {

/// Makes a key from a record. The template is text with fields in braces, "{ip} {path}"; `{{` and
/// `}}` are a brace. A template without fields is a constant key.
class KeyTemplate {
 public:
  /// Throws std::invalid_argument with one sentence if a brace is unmatched, a field has no name,
  /// or the text is longer than kMaxLineBytes.
  explicit KeyTemplate(std::string_view text);

  /// Looks up the fields in a reader; call it before the first read() of each file. If one is
  /// missing, throws std::invalid_argument with one sentence that lists the reader's fields; so it
  /// does if the template is the name of a field without its braces, most likely by mistake.
  void bind(LineReader& reader);

  /// Appends the key of a record of the bound reader.
  void append_key(const Record& record, std::string& out) const {
    for (const Piece& piece : pieces_) {
      if (piece.is_target) {
        append_normal_path(record.fields[piece.slot], out);
      } else {
        out += piece.is_field ? record.fields[piece.slot] : std::string_view(piece.text);
      }
    }
  }

  /// The template as given.
  const std::string& text() const { return text_; }

 private:
  struct Piece {
    /// A field's name, or literal text.
    std::string text;
    bool is_field = false;
    /// See LineReader::is_target().
    bool is_target = false;
    std::size_t slot = 0;
  };

  std::string text_;
  std::vector<Piece> pieces_;
};

}  // namespace sluice::replay
