#pragma once

#include <functional>
#include <memory>

#include "net/endpoint.h"
#include "net/event_loop.h"
#include "net/socket_address.h"

namespace sluice {

/// Looks up a host's name beside the loop: the system's resolver blocks, so helper threads ask it,
/// at most four in the process, which come and go with the work.
///
/// Belongs to the loop's thread.
class NameLookup final {
 public:
  using Found = std::function<void(FoundAddresses)>;
  using Resolve = FoundAddresses (*)(const Endpoint&);

  /// Calls `found` once on the loop's thread, later, unless it is destroyed before: with a fault
  /// where the memory has run out since. `loop` outlives it; `found` may destroy it. `resolve` is
  /// what a helper calls.
  NameLookup(EventLoop& loop, const Endpoint& endpoint, Found found, Resolve resolve = look_up);
  /// Does not wait for the resolver, whose answer is then thrown away.
  ~NameLookup();
  NameLookup(const NameLookup&) = delete;
  NameLookup& operator=(const NameLookup&) = delete;

 private:
  class Question;
  class Helpers;
  std::shared_ptr<Question> question_;
};

}  // namespace sluice
