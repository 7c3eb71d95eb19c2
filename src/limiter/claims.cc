#include <boost/container/static_vector.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/check_together.h"
#include "limiter/limiter_core.h"
#include "sluice/limiter.h"
#include "waiting/wait_queues.h"

namespace sluice {

namespace {

// The store answers a list of one as that request alone: by the part of its limit that binds.
Decision whole_of(const Decision& decision, std::size_t claims) {
  Decision whole = decision;
  if (claims == 1) whole.binding = 0;
  return whole;
}

}  // namespace

/// What claims ask, and the one store that they share.
class AskedClaims {
 public:
  /// Throws std::invalid_argument if there are too few or too many, or in different stores.
  explicit AskedClaims(std::span<const Claim> claims) : claims_(claims) {
    if (claims.empty() || claims.size() > kMaxTogether) {
      throw std::invalid_argument("from 1 to " + std::to_string(kMaxTogether) +
                                  " claims are taken from together, not " +
                                  std::to_string(claims.size()));
    }
    store = &claims[0].limiter.core_->store();
    for (const Claim& claim : claims) {
      const LimiterCore& core = *claim.limiter.core_;
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

  /// A request for all of them, whose timeout begins at `now`.
  AcquireRequest acquire_request(TimerQueue::TimePoint now,
                                 std::chrono::nanoseconds patience) const {
    require_patience(patience);
    const auto claim = [&](const Claim& c) { return c.limiter.core_->claim(c.key, c.cost); };
    AcquireRequest request(claim(claims_[0]), TimerQueue::later(now, patience));
    for (const Claim& other : claims_.subspan(1)) request.claims.push_back(claim(other));
    return request;
  }

  /// The time by which callers wait: all limiters of a store have one clock.
  TimerQueue::TimePoint now() const { return claims_[0].limiter.core_->now(); }

  /// Takes from all or none: one reservation for each claim.
  std::vector<Reservation> reserve(std::chrono::nanoseconds patience) const {
    const TimerQueue::TimePoint asked_at = now();
    AcquireRequest request = acquire_request(asked_at, patience);
    AcquireOutcome outcome = ask_now(request, asked_at);
    if (outcome.error) std::rethrow_exception(outcome.error);
    outcome.decision = whole_of(outcome.decision, claims_.size());
    std::vector<Reservation> all;
    for (std::size_t i = 0; i < claims_.size(); ++i) {
      const LimiterCore& core = *claims_[i].limiter.core_;
      all.push_back(core.reservation(std::move(request.claims[i]), outcome, i));
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

Decision check_all(ClaimList claims) {
  const AskedClaims asked(claims);
  return whole_of(asked.store->decide_all(asked.requests, kStoreTime), claims.size());
}

Decision check_all(ClaimList claims, std::span<Decision> parts) {
  AskedClaims asked(claims);
  require_room(parts.size(), claims.size());
  asked.want(parts);
  const Decision decision = asked.store->decide_all(asked.requests, kStoreTime);
  if (claims.size() == 1) parts[0] = decision;
  return whole_of(decision, claims.size());
}

void async_check_all(ClaimList claims, DecisionCallback callback) {
  async_check_all_parts(
      claims, [callback = std::move(callback)](const Decision& whole, const std::vector<Decision>&,
                                               std::exception_ptr error) {
        callback(whole, std::move(error));
      });
}

void async_check_all_parts(ClaimList claims, PartsCallback callback) {
  std::optional<AskedClaims> asked;
  if (auto error = error_in([&] { asked.emplace(claims); })) {
    return callback({}, {}, std::move(error));
  }
  std::vector<Decision> sizes(claims.size());
  asked->want(sizes);
  submit_requests(*asked->store, asked->bounds, asked->requests, Batch::Mode::kTogether,
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

Decision acquire_all(ClaimList claims, std::chrono::nanoseconds patience, std::stop_token stop) {
  const AskedClaims asked(claims);
  // The store does this as well. But acquire_all() may wait, and be denied, before it asks the
  // store.
  check_together(asked.requests);
  const AcquireOutcome outcome =
      WaitQueues::acquire_blocking(asked.acquire_request(asked.now(), patience), stop);
  return whole_of(outcome.decision, claims.size());
}

std::vector<Reservation> reserve_all(ClaimList claims, std::chrono::nanoseconds patience) {
  return AskedClaims(claims).reserve(patience);
}

}  // namespace sluice
