#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "sluice/export.h"
#include "sluice/limiter.h"
#include "sluice/permit.h"

namespace sluice {

/// Thrown by then() without a `refuse` function if the limit denies.
class SLUICE_EXPORT LimitExceeded : public std::runtime_error {
 public:
  /// `sentence` becomes what(); `decision` is returned by decision().
  LimitExceeded(const std::string& sentence, const Decision& decision)
      : std::runtime_error(sentence), decision_(decision) {}

  /// The denial; its retry_after says when to try again.
  const Decision& decision() const noexcept { return decision_; }

 private:
  Decision decision_;
};

namespace recipe {

/// Calls `run` with the given arguments if it accepts them, else without.
template <class Run, class... Given>
decltype(auto) call(Run&& run, Given&... given) {
  if constexpr (std::is_invocable_v<Run, Given&...>) {
    return std::invoke(std::forward<Run>(run), given...);
  } else {
    return std::invoke(std::forward<Run>(run));
  }
}

/// Calls `refuse`, with the decision if it accepts one; its result is converted to that of `run`.
template <class Result, class Refuse>
Result refuse(Refuse&& refuse, const Decision& decision) {
  if constexpr (std::is_void_v<Result>) {
    call(std::forward<Refuse>(refuse), decision);
  } else {
    return call(std::forward<Refuse>(refuse), decision);
  }
}

}  // namespace recipe

/// Runs functions, at most a given number of them per window; a window begins with its first run:
///
///     sluice::throttle(store, "sms").allow(100).every(10s).block(3s).then(run, refuse);
///
/// Throttles with the same name and window on one store share their state, whatever their numbers
/// of runs: that of the key `name` under the limit `fixed_window 100/10s anchor=first` with the
/// name "throttle." and the nanoseconds of the window. Not thread-safe.
class SLUICE_EXPORT Throttle {
 public:
  /// `name` can be any text.
  Throttle(std::shared_ptr<Store> store, std::string_view name);

  /// The number of runs in a window: at least 1. Default: 1.
  Throttle& allow(std::int64_t runs);
  /// The length of the window: 1 ns to 2^61 ns. Default: 1 s.
  Throttle& every(std::chrono::nanoseconds window);
  /// The timeout for waiting until a run is allowed: at least 0. Default: 0, does not wait. (The
  /// name is Laravel's: this does not block the key, as Limiter::block() does.)
  Throttle& block(std::chrono::nanoseconds patience);

  /// Calls `run` if the limit admits it within the timeout, else `refuse`. Both may take the
  /// Decision. Returns their result, converted to the result type of `run`. Throws what they throw,
  /// InvalidLimit or std::invalid_argument if a number is out of range or the store is null, and
  /// StoreError and std::system_error as a Limiter or ConcurrencyLimiter does.
  template <class Run, class Refuse>
  decltype(auto) then(Run&& run, Refuse&& refuse) {
    const Decision decision = acquire();
    using Result = decltype(recipe::call(std::forward<Run>(run), decision));
    if (decision.allowed) return recipe::call(std::forward<Run>(run), decision);
    return recipe::refuse<Result>(std::forward<Refuse>(refuse), decision);
  }

  /// The same, but throws LimitExceeded instead of calling `refuse`.
  template <class Run>
  decltype(auto) then(Run&& run) {
    const Decision decision = acquire();
    if (!decision.allowed) exceed(decision);
    return recipe::call(std::forward<Run>(run), decision);
  }

 private:
  std::string expression() const;
  Decision acquire() const;
  [[noreturn]] void exceed(const Decision& decision) const;

  std::shared_ptr<Store> store_;
  std::string name_;
  std::int64_t runs_ = 1;
  std::chrono::nanoseconds window_ = std::chrono::seconds(1);
  std::chrono::nanoseconds patience_{0};
};

/// Runs functions, at most a given number of them at the same time:
///
///     sluice::funnel(store, "reports").limit(100).release_after(60s).block(3s).then(run, refuse);
///
/// Funnels with the same name on one store share their state, whatever their numbers: that of the
/// key `name` under the limit `concurrency 100 lease=60s` with the name "funnel". Not thread-safe.
class SLUICE_EXPORT Funnel {
 public:
  /// `name` can be any text.
  Funnel(std::shared_ptr<Store> store, std::string_view name);

  /// How many functions may run at the same time: 1 to 65,536. Default: 1.
  Funnel& limit(std::int64_t runs);
  /// The lease: how long the permit of a crashed process counts, 1 ns to 2^61 ns. Default: 60 s.
  /// The permit of a running function is renewed, however long it runs.
  Funnel& release_after(std::chrono::nanoseconds lease);
  /// The timeout for waiting for a permit: at least 0. Default: 0, does not wait. (The name is
  /// Laravel's: this does not block the key, as Limiter::block() does.)
  Funnel& block(std::chrono::nanoseconds patience);

  /// As Throttle::then(). The permit is released when `run` returns or throws. `run` may take the
  /// Permit&, which tells it if the permit expires.
  template <class Run, class Refuse>
  decltype(auto) then(Run&& run, Refuse&& refuse) {
    Permit permit = acquire();
    using Result = decltype(recipe::call(std::forward<Run>(run), permit));
    if (permit) return recipe::call(std::forward<Run>(run), permit);
    return recipe::refuse<Result>(std::forward<Refuse>(refuse), permit.decision());
  }
  /// The same, but throws LimitExceeded instead of calling `refuse`.
  template <class Run>
  decltype(auto) then(Run&& run) {
    Permit permit = acquire();
    if (!permit) exceed(permit.decision());
    return recipe::call(std::forward<Run>(run), permit);
  }

 private:
  std::string expression() const;
  Permit acquire() const;
  [[noreturn]] void exceed(const Decision& decision) const;

  std::shared_ptr<Store> store_;
  std::string name_;
  std::int64_t runs_ = 1;
  std::chrono::nanoseconds lease_ = std::chrono::seconds(60);
  std::chrono::nanoseconds patience_{0};
};

/// Makes a Throttle, see there.
inline Throttle throttle(std::shared_ptr<Store> store, std::string_view name) {
  return Throttle(std::move(store), name);
}
/// Makes a Funnel, see there.
inline Funnel funnel(std::shared_ptr<Store> store, std::string_view name) {
  return Funnel(std::move(store), name);
}

}  // namespace sluice
