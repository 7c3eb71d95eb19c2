#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/store.h"
#include "limiter/bound_limit.h"
#include "limiter/recent_cache.h"
#include "sluice/limit.h"

namespace sluice {

/// Finds limits by what people write: the name of one defined at start, or an expression, which is
/// read once and remembered.
///
/// Not thread-safe, so that a look-up costs a hash and no lock: each thread has its own book, and
/// all books of a server share the store, so that they lead to the same keys.
class LimitBook {
 public:
  /// At most so many unnamed expressions are remembered; those not used lately are forgotten. Each
  /// holds a space of the store: whoever has many books keeps them together well below its bound,
  /// as the server does by kMaxThreads.
  static constexpr std::size_t kMaxRemembered = 128;

  explicit LimitBook(std::shared_ptr<Store> store);

  /// Defines a named limit. Throws InvalidLimit where its name is taken, and StoreError where the
  /// store cannot open its space. ("cl", the space of CL.THROTTLE, cannot be a limit's name.)
  void add(const Limit& limit);

  /// The limit of this name, or of this expression. Allocates nothing if it was asked for lately.
  /// The result is never null and is valid for at least the next 64 calls of find(); copy it to
  /// keep it longer. Throws InvalidLimit where the text is neither a name nor an expression, and
  /// StoreError where the store cannot open its space.
  const BoundLimit* find(std::string_view name_or_expression);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  using Remembered =
      RecentCache<std::string, BoundLimit, kMaxRemembered / 2, Hash, std::equal_to<>>;

  std::shared_ptr<Store> store_;
  std::unordered_map<std::string, BoundLimit, Hash, std::equal_to<>> named_;
  Remembered remembered_;
};

}  // namespace sluice
