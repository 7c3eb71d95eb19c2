#include <boost/container/static_vector.hpp>
#include <cassert>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "limiter/limiter_core.h"
#include "limiter/limiter_impl.h"
#include "sluice/limiter.h"

namespace sluice {

/// What claims ask, and the one store that they share.
class AskedClaims {
 public:
  /// Throws std::invalid_argument as check_all(), but for what the store finds.
  explicit AskedClaims(std::span<const Claim> claims) : claims_(claims) {
    if (claims.empty() || claims.size() > kMaxTogether) {
      throw std::invalid_argument("from 1 to " + std::to_string(kMaxTogether) +
                                  " claims are taken from together, not " +
                                  std::to_string(claims.size()));
    }
    store = &claims[0].limiter.impl_->store();
    for (const Claim& claim : claims) {
      const LimiterCore& core = *claim.limiter.impl_;
      const BoundLimit& bound = core.bound();
      if (&core.store() != store) {
        throw std::invalid_argument("the limits '" + claims[0].limiter.limit().space() + "' and '" +
                                    bound.limit.space() +
                                    "' are in different stores: one step takes from one store");
      }
      requests.push_back(to_take(bound, claim.key, claim.cost));
      bounds.push_back(&bound);
    }
  }

  /// Wants the decision of each claim. Of one alone it is that of the whole.
  void want(std::span<Decision> parts) {
    if (requests.size() == 1) return;
    for (std::size_t i = 0; i < requests.size(); ++i) requests[i].parts = parts.subspan(i, 1);
  }

  /// The first claim for whose key other callers of this process wait; nothing if none does.
  std::optional<std::size_t> first_busy() const {
    for (std::size_t i = 0; i < claims_.size(); ++i) {
      if (!queues(i).is_empty(claims_[i].key)) return i;
    }
    return std::nullopt;
  }

  WaitQueues& queues(std::size_t claim) const { return claims_[claim].limiter.impl_->queues(); }
  /// Of the first: all have the same clock.
  const LimiterCore& core() const { return *claims_[0].limiter.impl_; }

  /// A request for all of them that waits for one.
  AcquireRequest acquire_request(TimerThread::TimePoint until) const {
    AcquireRequest request;
    request.until = until;
    for (const Claim& claim : claims_) {
      request.claims.push_back({.binding = claim.limiter.impl_->binding(),
                                .key = std::string(claim.key),
                                .cost = claim.cost});
    }
    wait_for(request, 0);
    return request;
  }

  static void wait_for(AcquireRequest& request, std::size_t claim) {
    const AcquireClaim& waits_for = request.claims[claim];
    request.binding = waits_for.binding;
    request.key = waits_for.key;
    request.cost = waits_for.cost;
    request.waits_for = claim;
  }

  /// One for each claim, all granted by this decision or none. `by` are the limits that were asked.
  std::vector<Reservation> reservations(const Decision& decision,
                                        std::span<const BoundLimit* const> by) const {
    std::vector<Reservation> all;
    for (std::size_t i = 0; i < claims_.size(); ++i) {
      const Claim& claim = claims_[i];
      all.push_back(claim.limiter.impl_->reservation(decision, *by[i], claim.key, claim.cost));
    }
    return all;
  }

  Store* store = nullptr;
  boost::container::static_vector<Request, kMaxTogether> requests;
  /// bounds[i] is what requests[i] is about.
  boost::container::static_vector<const BoundLimit*, kMaxTogether> bounds;

 private:
  const std::span<const Claim> claims_;
};

namespace {

// The store answers a list of one as that request alone: by the part of its limit that binds.
Decision whole_of(const Decision& decision, std::size_t claims) {
  Decision whole = decision;
  if (claims == 1) whole.binding = 0;
  return whole;
}

}  // namespace

Decision check_all(std::span<const Claim> claims) {
  const AskedClaims asked(claims);
  return whole_of(asked.store->decide_all(asked.requests, kStoreTime), claims.size());
}

Decision check_all(std::span<const Claim> claims, std::span<Decision> parts) {
  AskedClaims asked(claims);
  require_room(parts.size(), claims.size());
  asked.want(parts);
  const Decision decision = asked.store->decide_all(asked.requests, kStoreTime);
  if (claims.size() == 1) parts[0] = decision;
  return whole_of(decision, claims.size());
}

void async_check_all(std::span<const Claim> claims, DecisionCallback callback) {
  async_check_all_parts(
      claims, [callback = std::move(callback)](const Decision& whole, const std::vector<Decision>&,
                                               std::exception_ptr error) {
        callback(whole, std::move(error));
      });
}

void async_check_all_parts(std::span<const Claim> claims, PartsCallback callback) {
  std::optional<AskedClaims> asked;
  if (auto error = error_in([&] { asked.emplace(claims); })) {
    return callback({}, {}, std::move(error));
  }
  std::vector<Decision> sizes(claims.size());
  asked->want(sizes);
  ask_later(*asked->store, asked->bounds, asked->requests, Batch::Mode::kTogether,
            [callback = std::move(callback)](const Batch* batch, std::exception_ptr error) {
              if (error) return callback({}, {}, std::move(error));
              const auto requests = batch->requests();
              const Decision& decision = batch->decisions()[0];
              std::vector<Decision> parts;
              for (const Request& request : requests) {
                parts.push_back(requests.size() == 1 ? decision : request.parts[0]);
              }
              callback(whole_of(decision, requests.size()), std::move(parts), nullptr);
            });
}

namespace {

// Takes from all claims as soon as all admit: asks, waits in the queue of the claim that denies for
// longest, asks for all of them when that caller is the first there, and so on.
AcquireOutcome wait_for_all(const AskedClaims& asked, AcquireRequest& request,
                            const std::stop_token& stop) {
  AcquireOutcome outcome;
  std::optional<Decision> denied;
  std::optional<std::size_t> next = asked.first_busy();
  const auto go_on = [&] {
    next.reset();
    if (!can_wait(request, outcome, asked.core().now())) return;
    next = outcome.decision.binding;
    denied = outcome.decision;
  };
  if (!next) {
    outcome = ask_now(request, asked.core().now());
    go_on();
  }
  while (next) {
    AskedClaims::wait_for(request, *next);
    outcome = asked.queues(*next).wait(request, denied, stop);
    next.reset();
    if (outcome.binds_elsewhere && outcome.decision.ended == Ended::kAnswered) go_on();
  }
  if (outcome.error) std::rethrow_exception(outcome.error);
  return outcome;
}

}  // namespace

Decision acquire_all(std::span<const Claim> claims, std::chrono::nanoseconds patience,
                     std::stop_token stop) {
  const AskedClaims asked(claims);
  require_patience(patience);
  if (claims.size() == 1) {
    const Claim& one = claims[0];
    return whole_of(one.limiter.acquire(one.key, one.cost, patience, std::move(stop)), 1);
  }
  AcquireRequest request = asked.acquire_request(TimerThread::later(asked.core().now(), patience));
  for (;;) {
    const AcquireOutcome outcome = wait_for_all(asked, request, stop);
    if (is_over(outcome)) return outcome.decision;
    const TimerThread::TimePoint ready =
        TimerThread::later(asked.core().now(), outcome.decision.delay);
    auto reserved = asked.reservations(outcome.decision, outcome.bounds);
    const Awakening awakening =
        asked.core().sleep_until(ready, request.claims, outcome.wakings, stop);
    if (awakening.why == Waking::kReady) return outcome.decision;
    for (std::size_t i = 0; i < reserved.size(); ++i) {
      // What was reset is not refunded, which would give back what others took since.
      if (awakening.why != Waking::kReset || i != awakening.claim) reserved[i].cancel();
    }
    if (awakening.why == Waking::kStopped) {
      return denied_after(outcome.decision, ready - asked.core().now(), Ended::kStopped);
    }
    if (awakening.why == Waking::kBlocked) request.until = asked.core().now();
  }
}

std::vector<Reservation> reserve_all(std::span<const Claim> claims,
                                     std::chrono::nanoseconds patience) {
  AskedClaims asked(claims);
  require_patience(patience);
  for (Request& request : asked.requests) request.patience_ns = patience.count();
  const Decision decision = asked.store->decide_all(asked.requests, kStoreTime);
  return asked.reservations(whole_of(decision, claims.size()), asked.bounds);
}

}  // namespace sluice
