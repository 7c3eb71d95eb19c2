#pragma once

#include <string_view>

#include "protocols/http/arena.h"

namespace sluice::http {

/// Gives the parameters of a query, "name=value&name=value", one after the other.
class QueryReader {
 public:
  explicit QueryReader(std::string_view query) : rest_(query) {}

  /// False where there is none left. Parameters without a name are left out.
  bool next(std::string_view& name, std::string_view& value);

 private:
  std::string_view rest_;
};

/// The text with %xx replaced by the byte, and, in a query, '+' by a blank; itself where there is
/// neither. Throws Problem where '%' is not followed by two digits.
std::string_view decode_percent(std::string_view text, bool is_query, Arena& arena);

/// The first parameter of this name, decoded; empty if there is none.
std::string_view query_value(std::string_view query, std::string_view name, Arena& arena);

}  // namespace sluice::http
