#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sluice/export.h"

namespace sluice {

struct LimitDefinition;

/// A limit that cannot be: the text cannot be read, or a number is outside its range, or a product
/// of numbers cannot be held. what() is one sentence that names the text, the fault and the place.
class SLUICE_EXPORT InvalidLimit : public std::invalid_argument {
 public:
  /// The sentence, and position().
  InvalidLimit(const std::string& sentence, std::size_t position)
      : std::invalid_argument(sentence), position_(position) {}

  /// The offset in the expression, from 0, of the character at fault.
  std::size_t position() const noexcept { return position_; }

 private:
  std::size_t position_;
};

/// What is allowed: one algorithm with its numbers, or several joined by `&`, all of which must
/// admit. A value: cheap to copy, immutable, and safe to share between threads.
///
///     fixed_window    5/1m            [anchor=clock|first]     sliding_log     5/10m
///     sliding_window  1000/1h         [precision=60s] [strict=no]
///     sliding_counter 1000/1h         token_bucket    100/1s   [burst=200] [borrow=yes]
///     leaky_bucket    10/1s queue=50  a & b
///     concurrency     100             [lease=60s]   (permits: see permit.h; in no `&`)
///
/// Durations take the units ns us ms s m h d w and add up (1h30m); 100/s means 100/1s.
class SLUICE_EXPORT Limit {
 public:
  /// Reads an expression. `name` is the space in which its keys live: limits of one name share
  /// their state. Without a name the canonical expression is the space. A name has 1 to 64
  /// characters of a-z, A-Z, 0-9, '_', '.', '-'.
  ///
  /// Throws InvalidLimit.
  explicit Limit(std::string_view expression, std::string_view name = {});

  /// The expression in its canonical form: two expressions that mean the same limit have the same.
  const std::string& expression() const;

  /// The space its keys live in: the name, or the canonical expression.
  const std::string& space() const;

  /// What the rest of the library works with.
  const LimitDefinition& definition() const { return *definition_; }

 private:
  std::shared_ptr<const LimitDefinition> definition_;
};

}  // namespace sluice
