#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/export.h"

namespace sluice {

struct LimitDefinition;

/// Thrown for an invalid limit expression: it has a syntax error, a number is out of range, or a
/// product of its numbers overflows. what() is one sentence that quotes the text and says what is
/// wrong and where.
class SLUICE_EXPORT InvalidLimit : public std::invalid_argument {
 public:
  /// `sentence` becomes what(); `position` is returned by position().
  InvalidLimit(const std::string& sentence, std::size_t position)
      : std::invalid_argument(sentence), position_(position) {}

  /// The offset of the wrong character in the expression, from 0.
  std::size_t position() const noexcept { return position_; }

 private:
  std::size_t position_;
};

/// Defines what is allowed: one algorithm with its numbers, or several joined by `&`, which must
/// all admit a request. Immutable, cheap to copy, thread-safe.
///
///     token_bucket    100/1s   [burst=200] [borrow=yes]
///     leaky_bucket    10/1s    queue=50
///     fixed_window    5/1m     [anchor=clock|first]
///     sliding_log     5/10m
///     sliding_window  1000/1h  [precision=60s] [strict=no]
///     sliding_counter 1000/1h
///     concurrency     100      [lease=60s]   (permits, see permit.h; not with `&`)
///     token_bucket 10/1s & fixed_window 1000/1d
///
/// Duration units are ns us ms s m h d w; they can be combined (1h30m). 100/s means 100/1s.
class SLUICE_EXPORT Limit {
 public:
  /// Parses `expression`. `name` becomes the space of the limit's keys: limits of the same name on
  /// one store share the states of their keys. Without a name, the canonical expression is the
  /// space. A name has 1 to 64 characters of a-z, A-Z, 0-9, '_', '.', '-'.
  ///
  /// Throws InvalidLimit.
  explicit Limit(std::string_view expression, std::string_view name = {});

  /// The expression in canonical form, which is equal for two expressions with the same meaning.
  const std::string& expression() const;

  /// The space of the limit's keys: the name, or the canonical expression.
  const std::string& space() const;

  /// The name of the algorithm, as in an expression: "token_bucket". Of a limit with several parts,
  /// this and the next two are those of the first.
  std::string_view algorithm() const;

  /// The units per window, the number before the slash; for `concurrency`, the permits. The most
  /// units at once are Decision::limit, which differs for buckets.
  std::int64_t count() const;

  /// The window, the duration after the slash. 0 for `concurrency`, which has none.
  std::chrono::nanoseconds window() const;

  /// The parts that `&` joins, in the order of the expression, each as a limit of its own; the
  /// limit itself if it has only one. The parts of a limit named "api" are named "api", "api.2",
  /// "api.3"; those of a limit without a name have none. They are for reading, and for
  /// http_headers(): a Limiter of a part would not share the states of the whole.
  std::vector<Limit> parts() const;

  /// One sentence about a bucket whose rate is rounded noticeably, or empty. The time after which a
  /// unit returns is rounded up to a whole nanosecond, so most buckets of more than 100,000,000
  /// units per second admit fewer than that. To be shown to the author of the limit.
  std::string warning() const;

  /// The parsed limit. For the library's own use.
  const LimitDefinition& definition() const { return *definition_; }

 private:
  explicit Limit(std::shared_ptr<const LimitDefinition> definition)
      : definition_(std::move(definition)) {}

  std::shared_ptr<const LimitDefinition> definition_;
};

}  // namespace sluice
