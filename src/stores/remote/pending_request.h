#pragma once

#include <boost/container/small_vector.hpp>
#include <boost/intrusive/list.hpp>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/store.h"

namespace sluice {

struct PendingBatch;
class WaitingCaller;

using ListHook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
template <class T>
using List = boost::intrusive::list<T, boost::intrusive::constant_time_size<false>>;

/// The part of a batch that gets one decision: one request, or all requests of a batch that is
/// decided together. Its PendingBatch owns it. From Router::route() until it is completed or
/// abandoned, the router keeps it in at most one list, or in a call that is in flight; neither owns
/// it. unlink() takes it out of its list.
struct PendingRequest : ListHook {
  /// More than one if they are decided together.
  std::span<const Request> requests;
  Decision* decision = nullptr;
  Instant now = kStoreTime;

  /// For the router only, and most of it for one router: it lies here so that no router allocates
  /// for a request. `tries`: how often it was redirected, or its server had no script. `slot`: the
  /// Redis Cluster slot of its key. `holder`, `place`: the call that carries it, and its place in
  /// that call; a null holder: it waits in a list.
  std::uint8_t tries = 0;
  bool alone = false;            // Must be sent in a call of its own.
  bool is_again = false;         // Was sent before, or refused.
  bool may_be_executed = false;  // It failed: see kTakenUnknown.
  bool is_late = false;          // See Router::expire(). It is not sent again.
  bool is_late_here = false;     // Its time was up, and this process noticed that late.
  std::uint16_t slot = 0;
  std::uint32_t place = 0;
  void* holder = nullptr;
  /// Once it is late: its decision and those of its parts, if they are made before the server has
  /// executed it.
  std::unique_ptr<const std::vector<Decision>> judged;

  /// For the RemoteWorker only: the batch that it is a part of; null once it has its answer.
  PendingBatch* batch = nullptr;
};

/// A list of requests, in the order of arrival, which does not own them.
class RequestList : public List<PendingRequest> {
 public:
  /// The first, no longer in the list. REQUIRES: not empty.
  PendingRequest& pop_front() {
    assert(!empty());
    PendingRequest& first = front();
    List<PendingRequest>::pop_front();
    return first;
  }
  /// Moves all requests of another list to the end of this one.
  void append(RequestList& others) { splice(end(), others); }
};

/// A batch that a RemoteWorker has taken over and that awaits answers, also those to late requests,
/// after its caller has been answered. The RemoteWorker owns it: it is in one of its lists from
/// submit() or submit_and_wait() until finish() destroys it.
struct PendingBatch : ListHook {
  using Clock = std::chrono::steady_clock;

  explicit PendingBatch(std::unique_ptr<Batch> taken);

  std::unique_ptr<Batch> batch;
  WaitingCaller* waiter = nullptr;  // In submit_and_wait().
  Clock::time_point deadline;  // The earliest instant at which one of its requests may be late.
  std::size_t unanswered;      // Requests without an answer that are not late.
  std::size_t late = 0;        // Late requests whose replies may still come.
  bool is_answered = false;    // Its caller has been answered: all that is left is late.
  boost::container::small_vector<PendingRequest, 1> requests;
};

}  // namespace sluice
