#pragma once

#include <boost/container/small_vector.hpp>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/store.h"

namespace sluice {

struct PendingBatch;

using ListHook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
template <class T>
using List = boost::intrusive::list<T, boost::intrusive::constant_time_size<false>>;

/// One question on its way to a server: a request of a batch, or all of a batch that is asked
/// together. Belongs to the RemoteWorker, and is with the router until it is answered. It is in one
/// list at most, which does not own it; unlink() takes it out.
struct PendingRequest : ListHook {
  /// Several where they are asked together.
  std::span<const Request> requests;
  Decision* decision = nullptr;
  Instant now = kStoreTime;

  /// For the router: how often it was sent elsewhere or again, and what it waits in: a list, or
  /// `holder` at `place`.
  std::uint8_t tries = 0;
  bool alone = false;  // Travels with no other.
  std::uint16_t slot = 0;
  std::uint32_t place = 0;
  void* holder = nullptr;

  /// For the RemoteWorker: what it is a part of; null once it is answered.
  PendingBatch* batch = nullptr;
};

/// Requests in order.
class RequestList : public List<PendingRequest> {
 public:
  /// The first, no longer in the list. REQUIRES: not empty.
  PendingRequest& pop_front() {
    PendingRequest& first = front();
    List<PendingRequest>::pop_front();
    return first;
  }
  /// Puts all of another list behind its own.
  void append(RequestList& others) { splice(end(), others); }
};

/// A batch that a store has taken, and how far it is.
struct PendingBatch : ListHook {
  using Clock = std::chrono::steady_clock;

  explicit PendingBatch(std::unique_ptr<Batch> taken);

  std::unique_ptr<Batch> batch;
  Clock::time_point deadline;  // From when its requests were given to the router.
  std::size_t open;  // Requests without an answer.
  boost::container::small_vector<PendingRequest, 1> requests;
};

}  // namespace sluice
