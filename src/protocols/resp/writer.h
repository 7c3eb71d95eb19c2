#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::resp {

enum class Protocol : std::uint8_t { kResp2 = 2, kResp3 = 3 };

inline constexpr std::size_t kMaxIntegerBytes = 22;

/// As put_integer_line(). REQUIRES: no number from 0 to 99.
char* put_long_integer_line(char* to, std::int64_t number);

/// "\r\n" after `number`, at `to`, which has room for kMaxIntegerBytes; the end of what was
/// written. Most numbers in replies have a digit or two.
inline char* put_integer_line(char* to, std::int64_t number) {
  if (number < 0 || number >= 100) return put_long_integer_line(to, number);
  const auto small = static_cast<unsigned>(number);
  if (small >= 10) *to++ = static_cast<char>('0' + small / 10);
  *to++ = static_cast<char>('0' + small % 10);
  *to++ = '\r';
  *to++ = '\n';
  return to;
}

/// Appends replies to a buffer in the protocol that the client has chosen.
class Writer {
 public:
  Writer(std::string& output, Protocol protocol) : output_(output), protocol_(protocol) {}

  /// REQUIRES: no line end in `text`.
  void simple(std::string_view text);

  /// `text` begins with the error's code ("ERR"). Line ends in it become blanks, as in Redis, and
  /// what a terminal might interpret is escaped, so that it can quote what the client sent.
  void error(std::string_view text);
  void integer(std::int64_t number);
  void bulk(std::string_view text);
  void null();

  /// What follows is an array of `size` replies; a map of `pairs` pairs (in RESP2 an array of twice
  /// as many); a set of `size` replies (in RESP2 an array).
  void array(std::size_t size);
  void map(std::size_t pairs);
  void set(std::size_t size);

  /// Text meant for people: in RESP2 a bulk.
  void verbatim(std::string_view text);

 private:
  void header(char marker, std::int64_t number);
  bool is_resp3() const { return protocol_ == Protocol::kResp3; }

  std::string& output_;
  Protocol protocol_;
};

}  // namespace sluice::resp
