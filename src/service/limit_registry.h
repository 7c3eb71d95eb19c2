#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/store.h"
#include "service/recent_cache.h"
#include "sluice/limit.h"
#include "waiting/limit_binding.h"

namespace sluice {

/// A limit, its space in the store, and where its decisions are counted.
struct RegisteredLimit : BoundLimit {
  /// Where its decisions are counted: 1 for the limit that was added first, 2 for the next; 0 for
  /// an expression.
  std::uint16_t number = 0;
};

/// Thrown for a text that can only be meant as the name of a limit, and is none.
class UnknownLimit final : public InvalidLimit {
 public:
  explicit UnknownLimit(const std::string& sentence) : InvalidLimit(sentence, 0) {}
};

/// Finds the limit that a client names: by the name of a limit from the limits file, or by an
/// expression, which is parsed once and remembered. (The limits of CL.THROTTLE have no name:
/// resp/throttle_limits finds them.)
///
/// Not thread-safe, so that a look-up costs a hash and no lock: each thread has its own registry,
/// and all registries of a server share the store, so that they lead to the same keys.
class LimitRegistry {
 public:
  /// The most expressions that are remembered; those not used lately are forgotten. Each holds a
  /// space of the store: kMaxThreads keeps those of all threads well below the store's bound.
  static constexpr std::size_t kMaxRemembered = 128;

  /// `expressions`: whether it finds limits by expressions, too.
  explicit LimitRegistry(std::shared_ptr<Store> store, bool expressions = true);

  bool answers_expressions() const { return expressions_; }

  /// Defines a named limit. Throws InvalidLimit where its name is taken, and StoreError where the
  /// store cannot open its space. ("cl", the space of CL.THROTTLE, cannot be a limit's name.)
  void add(const Limit& limit);

  /// The limit of this name, or of this expression. Allocates nothing if it was asked for lately.
  /// The reference, which is never to null, stays valid for at least the next 64 calls of find();
  /// copy it to keep the limit longer. Throws UnknownLimit where the text is one word and names no
  /// limit, InvalidLimit where it is no expression that may be asked, and StoreError where the
  /// store cannot open its space.
  const std::shared_ptr<const RegisteredLimit>& find(std::string_view name_or_expression);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  using Shared = std::shared_ptr<const RegisteredLimit>;

  Shared bind(Limit limit, std::size_t number);

  std::shared_ptr<Store> store_;
  const bool expressions_;
  std::unordered_map<std::string, Shared, Hash, std::equal_to<>> named_;
  RecentCache<std::string, Shared, kMaxRemembered / 2, Hash, std::equal_to<>> remembered_;
};

}  // namespace sluice
