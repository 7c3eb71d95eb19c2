#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::http {

// Bounds on what a client may send. A longer request line is answered 414, more headers 431, a
// longer body 413.
inline constexpr std::size_t kMaxLineBytes = 8 * 1024;
inline constexpr std::size_t kMaxHeadBytes = 32 * 1024;
inline constexpr std::size_t kMaxFields = 100;
inline constexpr std::size_t kMaxBodyBytes = 1024 * 1024;
/// A client that sends a longer body, or a chunked one, must have the right to before it is read.
inline constexpr std::size_t kSmallBodyBytes = 16 * 1024;

/// A header of a request, without blanks around its value.
struct HeaderField {
  std::string_view name;
  std::string_view value;
};

/// Whether two texts are equal but for the case of ASCII letters, as names of headers are.
bool equals_ignoring_case(std::string_view a, std::string_view b);

/// What follows the question mark of a target.
std::string_view query_of(std::string_view target);

/// A complete request. The views refer to the bytes it was parsed from, or to the parser.
struct Message {
  std::string_view method;
  /// The target as it was sent, but for the scheme and authority of an absolute one: "/a%20b?c=d".
  std::string_view target;
  /// The authority of the client's Host header.
  std::string_view host;
  std::vector<HeaderField> fields;
  std::string_view body;
  bool is_http_1_0 = false;
  bool keeps_alive = false;

  std::string_view path() const { return target.substr(0, target.find('?')); }
  std::string_view query() const { return query_of(target); }
  /// The value of the first header of this name; empty if there is none.
  std::string_view field(std::string_view name) const;
  /// The same, of a header that may be there once. Throws Problem if it is there twice: a proxy may
  /// have read the other one.
  std::string_view only_field(std::string_view name) const;
  bool has_field(std::string_view name) const { return find(name) != nullptr; }

 private:
  const HeaderField* find(std::string_view name) const;
};

/// Why a request was refused. The functions that read and carry out a request throw it; the handler
/// catches it and answers.
struct Problem {
  int status = 400;
  /// One sentence for the client.
  std::string detail = {};
  /// Further members of the problem object, each beginning with a comma: `,"offset":3`.
  std::string members = {};
  /// For 405: the allowed methods.
  std::string_view allow = {};
  /// For 503: when to try again, in seconds; 0 for no Retry-After.
  int retry_after_s = 0;
};

}  // namespace sluice::http
