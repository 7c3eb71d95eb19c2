#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/store.h"
#include "core/text_hash.h"
#include "service/named_limits.h"
#include "service/recent_cache.h"

namespace sluice {

/// Thrown for a text that can only be meant as the name of a limit, if no limit has this name.
class UnknownLimit final : public InvalidLimit {
 public:
  /// The sentence also has the name that was probably meant, of those of `named`.
  UnknownLimit(std::string_view name, const NamedLimits& named);
};

/// Finds the limit that a client names: by the name of a limit, or by an expression, which is
/// parsed once and remembered.
///
/// Not thread-safe, so that a look-up costs a hash and no lock: each thread has its own registry,
/// and all registries of a server share the store, so that they lead to the same keys.
class LimitRegistry {
 public:
  /// The most expressions that are remembered; those not used lately are forgotten. Each holds a
  /// space of the store: kMaxThreads keeps those of all threads well below the store's bound.
  static constexpr std::size_t kMaxRemembered = 128;

  LimitRegistry(std::shared_ptr<Store> store, std::shared_ptr<const NamedLimits> named);

  /// find() looks for these from now on. References that it has returned before become invalid.
  void replace(std::shared_ptr<const NamedLimits> named) { named_ = std::move(named); }

  /// Whether requests may also define limits themselves (ServedLimits::expressions).
  bool answers_expressions() const { return named_->expressions(); }

  /// The limit of this name, or of this expression. Allocates nothing if it was asked for lately.
  /// The reference, which is never to null, stays valid for at least the next 64 calls of find();
  /// copy it to keep the limit longer. Throws UnknownLimit if the text is one word and no limit has
  /// this name, InvalidLimit if it is not a valid expression or expressions are not answered, and
  /// StoreError if the store cannot open its space.
  const std::shared_ptr<const RegisteredLimit>& find(std::string_view name_or_expression);

  /// How often it has asked the store to open a space: see DecisionBatch::weight().
  std::size_t opened() const { return opened_; }

 private:
  using Shared = std::shared_ptr<const RegisteredLimit>;

  std::shared_ptr<Store> store_;
  std::shared_ptr<const NamedLimits> named_;
  RecentCache<std::string, Shared, kMaxRemembered / 2, TextHash, std::equal_to<>> remembered_;
  std::size_t opened_ = 0;
};

}  // namespace sluice
