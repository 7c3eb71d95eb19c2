#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "sluice/decision.h"
#include "sluice/limit.h"
#include "sluice/store.h"

namespace sluice {

class Space;

/// Answers one question: may this caller go ahead now? One limit over one store; keys tell the
/// callers apart. Cheap to make; limiters of one limit name on one store share their keys' state.
///
/// Thread-safe: any thread may call any function at any time.
class Limiter {
 public:
  /// Throws StoreError where the store cannot keep this limit's keys.
  Limiter(std::shared_ptr<Store> store, Limit limit);
  ~Limiter();
  Limiter(Limiter&&) noexcept;
  Limiter& operator=(Limiter&&) noexcept;

  /// Takes `cost` units for `key` if the limit has them now, else changes nothing. A key is any
  /// bytes. A cost of 0 is a peek. Throws std::invalid_argument where the cost is negative.
  Decision check(std::string_view key, std::int64_t cost = 1);

  /// How the key stands: always allowed, changes nothing.
  Decision peek(std::string_view key);

  /// Forgets the key: as if it had never been seen. Throws StoreError where a store elsewhere did
  /// not answer: what this process keeps of the key is then forgotten, and no more is known.
  void reset(std::string_view key);

  const Limit& limit() const { return limit_; }

 private:
  std::shared_ptr<Store> store_;
  Limit limit_;
  std::shared_ptr<Space> space_;
};

}  // namespace sluice
