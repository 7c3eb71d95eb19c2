#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/limit.h"

namespace sluice {

/// Parses a duration such as "1h30m" into nanoseconds, 1 to kMaxDurationNs; the units are
/// ns us ms s m h d w. The duration is [begin, end) of `expression`, which is passed whole for the
/// error message. Throws InvalidLimit.
std::int64_t parse_duration(std::string_view expression, std::size_t begin, std::size_t end);

/// The inverse of parse_duration, with the largest units first: "1h30m".
std::string format_duration(std::int64_t duration_ns);

/// One part of a parsed limit expression: an algorithm's name, `count/duration`, options. An
/// algorithm reads the options that it knows and then calls finish(), which rejects the others.
class PartSyntax {
 public:
  std::string_view algorithm() const { return algorithm_; }
  /// Throw InvalidLimit if the part has no count, or no duration. (Until then the algorithm's name
  /// may be found to be the mistake.)
  std::int64_t count() const;
  std::int64_t duration_ns() const;
  /// Throws InvalidLimit with this message if the part has a duration.
  void refuse_duration(const std::string& message) const;

  /// The value of an option, as a count (least to kMaxCount), a duration, or the index of one of
  /// several words; nothing if the option is not given. Throws InvalidLimit.
  std::optional<std::int64_t> count_option(std::string_view name, std::int64_t least = 1);
  std::optional<std::int64_t> duration_option(std::string_view name);
  std::optional<std::size_t> word_option(std::string_view name,
                                         std::initializer_list<std::string_view> words);
  bool yes_no_option(std::string_view name, bool otherwise);

  /// Throws InvalidLimit for the first option that has not been read.
  void finish() const;

  /// Throws InvalidLimit whose position is that of the count, the duration, or an option's value
  /// (if that option is not given, of the algorithm).
  [[noreturn]] void fail_count(const std::string& message) const;
  [[noreturn]] void fail_duration(const std::string& message) const;
  [[noreturn]] void fail_option(std::string_view name, const std::string& message) const;
  [[noreturn]] void fail_algorithm(const std::string& message) const;

 private:
  friend std::vector<PartSyntax> parse_limit_syntax(std::string_view expression);

  struct Option {
    std::string_view name;
    std::string_view value;
    bool asked_for = false;
  };

  std::size_t offset_of(std::string_view piece) const;
  Option* find(std::string_view name);

  std::string_view expression_;
  std::string_view algorithm_;
  std::string_view count_text_;
  std::string_view duration_text_;
  std::optional<std::int64_t> count_;
  std::optional<std::int64_t> duration_ns_;
  std::vector<Option> options_;
  std::vector<std::string_view> known_;
};

/// Splits an expression into its parts, at most kMaxParts, and parses their numbers. The parts
/// refer to `expression`, which must outlive them. Throws InvalidLimit.
std::vector<PartSyntax> parse_limit_syntax(std::string_view expression);

inline constexpr std::size_t kMaxParts = 8;
inline constexpr std::size_t kMaxExpressionBytes = 1024;

}  // namespace sluice
