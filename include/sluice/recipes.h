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

/// Thrown by then() where the limit denies and there is nobody to tell.
class SLUICE_EXPORT LimitExceeded : public std::runtime_error {
 public:
  /// The sentence, and decision().
  LimitExceeded(const std::string& sentence, const Decision& decision)
      : std::runtime_error(sentence), decision_(decision) {}

  /// retry_after says when to come back.
  const Decision& decision() const noexcept { return decision_; }

 private:
  Decision decision_;
};

namespace recipe {

/// What `run` returns, given the permit if it takes one.
template <class Run, class... Given>
decltype(auto) call(Run&& run, Given&... given) {
  if constexpr (std::is_invocable_v<Run, Given&...>) {
    return std::invoke(std::forward<Run>(run), given...);
  } else {
    return std::invoke(std::forward<Run>(run));
  }
}

/// The result of `refuse`, as that of `run`.
template <class Result, class Refuse>
Result refuse(Refuse&& refuse, const Decision& decision) {
  if constexpr (std::is_void_v<Result>) {
    call(std::forward<Refuse>(refuse), decision);
  } else {
    return call(std::forward<Refuse>(refuse), decision);
  }
}

}  // namespace recipe

/// At most so many runs per so long, the window beginning with the first:
///
///     sluice::throttle(store, "sms").allow(100).every(10s).block(3s).then(run, refuse);
///
/// Two of one name and the same numbers share their state: the key `name` of the limit
/// `fixed_window 100/10s anchor=first`. See then() for what it throws. One thread at a time.
class SLUICE_EXPORT Throttle {
 public:
  /// Names as of a Limit.
  Throttle(std::shared_ptr<Store> store, std::string_view name);

  /// How many: 1 if not given, at least 1.
  Throttle& allow(std::int64_t runs);
  /// In how long: 1 s if not given, 1 ns to 2^61 ns.
  Throttle& every(std::chrono::nanoseconds window);
  /// How long to wait for a turn (at least 0): not at all if not given.
  Throttle& block(std::chrono::nanoseconds patience);

  /// Runs `run` when it is its turn, else `refuse`, which may take the Decision; returns what they
  /// return, as `run`'s type. Throws what they throw, InvalidLimit or std::invalid_argument where a
  /// number is out of range, StoreError as a Limiter.
  template <class Run, class Refuse>
  auto then(Run&& run, Refuse&& refuse) -> std::invoke_result_t<Run> {
    const Decision decision = acquire();
    if (decision.allowed) return std::invoke(std::forward<Run>(run));
    return recipe::refuse<std::invoke_result_t<Run>>(std::forward<Refuse>(refuse), decision);
  }

  /// The same, but throws LimitExceeded where it would refuse.
  template <class Run>
  auto then(Run&& run) -> std::invoke_result_t<Run> {
    const Decision decision = acquire();
    if (!decision.allowed) exceed(decision);
    return std::invoke(std::forward<Run>(run));
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

/// At most so many at the same time:
///
///     sluice::funnel(store, "reports").limit(100).release_after(60s).block(3s).then(run, refuse);
///
/// Two of one name and the same numbers share their state: the key `name` of the limit
/// `concurrency 100 lease=60s`. One thread at a time.
class SLUICE_EXPORT Funnel {
 public:
  /// Names as of a Limit.
  Funnel(std::shared_ptr<Store> store, std::string_view name);

  /// How many (1 if not given, 1 to 65,536).
  Funnel& limit(std::int64_t runs);
  /// How long one that has died keeps its place (60 s if not given, 1 ns to 2^61 ns); who is alive
  /// keeps it as long as it runs.
  Funnel& release_after(std::chrono::nanoseconds lease);
  /// How long to wait for a place (at least 0): not at all if not given.
  Funnel& block(std::chrono::nanoseconds patience);

  /// As Throttle::then(). The place is given back when `run` returns or throws. `run` may take the
  /// Permit&, which tells it when the place is lost.
  template <class Run, class Refuse>
  decltype(auto) then(Run&& run, Refuse&& refuse) {
    Permit permit = acquire();
    using Result = decltype(recipe::call(std::forward<Run>(run), permit));
    if (permit) return recipe::call(std::forward<Run>(run), permit);
    return recipe::refuse<Result>(std::forward<Refuse>(refuse), permit.decision());
  }
  /// The same, but throws LimitExceeded where it would refuse.
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

/// Begins a Throttle: see there.
inline Throttle throttle(std::shared_ptr<Store> store, std::string_view name) {
  return Throttle(std::move(store), name);
}
/// Begins a Funnel: see there.
inline Funnel funnel(std::shared_ptr<Store> store, std::string_view name) {
  return Funnel(std::move(store), name);
}

}  // namespace sluice
