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

/// Reads "1h30m" as nanoseconds, 1 to kMaxDurationNs; units ns us ms s m h d w, which add up.
/// `expression` is the whole text, for the error's sake; the duration is [begin, end) of it.
/// Throws InvalidLimit.
std::int64_t parse_duration(std::string_view expression, std::size_t begin, std::size_t end);

/// The text that parse_duration reads as these nanoseconds, largest units first: "1h30m".
std::string format_duration(std::int64_t duration_ns);

/// One part of a limit expression as written: an algorithm's name, `count/duration`, options. An
/// algorithm asks for what it knows and then calls finish(), which refuses the rest.
class PartSyntax {
 public:
  std::string_view algorithm() const { return algorithm_; }
  std::int64_t count() const { return count_; }
  /// Throws InvalidLimit where none was written.
  std::int64_t duration_ns() const;
  /// Throws InvalidLimit, with this fault, where one was written.
  void refuse_duration(const std::string& fault) const;

  /// An option's value, read as a count (least to kMaxCount), a duration or one of several words;
  /// nothing where the option was not written. Throws InvalidLimit.
  std::optional<std::int64_t> count_option(std::string_view name, std::int64_t least = 1);
  std::optional<std::int64_t> duration_option(std::string_view name);
  std::optional<std::size_t> word_option(std::string_view name,
                                         std::initializer_list<std::string_view> words);
  bool yes_no_option(std::string_view name, bool otherwise);

  /// Throws InvalidLimit at the first option nobody asked for.
  void finish() const;

  /// Throws InvalidLimit that points at the count, the duration, or an option's value (or, where
  /// that option was not written, at the algorithm).
  [[noreturn]] void fail_count(const std::string& fault) const;
  [[noreturn]] void fail_duration(const std::string& fault) const;
  [[noreturn]] void fail_option(std::string_view name, const std::string& fault) const;
  [[noreturn]] void fail_algorithm(const std::string& fault) const;

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
  std::int64_t count_ = 0;
  std::optional<std::int64_t> duration_ns_;
  std::vector<Option> options_;
  std::vector<std::string_view> known_;
};

/// Splits an expression into its parts, at most kMaxParts, and reads their numbers. The parts refer
/// to `expression`, which must outlive them. Throws InvalidLimit.
std::vector<PartSyntax> parse_limit_syntax(std::string_view expression);

inline constexpr std::size_t kMaxParts = 8;
inline constexpr std::size_t kMaxExpressionBytes = 1024;

}  // namespace sluice
