#pragma once

#include <string_view>

#include "protocols/http/arena.h"

namespace sluice::http {

/// Reads the parameters of a query, "name=value&name=value", one after the other.
class QueryReader {
 public:
  explicit QueryReader(std::string_view query) : rest_(query) {}

  /// False if none is left. Skips parameters without a name.
  bool next(std::string_view& name, std::string_view& value);

 private:
  std::string_view rest_;
};

/// The text with %xx replaced by the byte and, in a query, '+' by a blank. Returns the text itself
/// if it has neither. Throws Problem if '%' is not followed by two digits.
std::string_view decode_percent(std::string_view text, bool is_query, Arena& arena);

/// Throws the Problem of a parameter that a query has twice. (Which of the two another program
/// reads is not known: it may be the other one.)
[[noreturn]] void refuse_twice(std::string_view name);

/// The parameter of this name, decoded; empty if there is none. Throws Problem if there are two, or
/// if its value cannot be decoded; other parameters may be anything.
std::string_view query_value(std::string_view query, std::string_view name, Arena& arena);

}  // namespace sluice::http
