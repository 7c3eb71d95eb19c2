#include "limiter/followers.h"

#include <exception>
#include <span>

namespace sluice {

void Followers::add(const Request& request, const Decision& answer, Instant sent, Space* space) {
  if (local_ == nullptr) return;
  const auto local = local_->following(request, answer);
  if (!local) return;
  const bool at_once = sent - kMillisecondNs < now_ && now_ < sent + kMillisecondNs;
  if (count_ == kMost || (count_ > 0 && !at_once)) flush();
  if (count_ == 0) now_ = sent;
  Request& added = *std::construct_at(requests_.at(count_), *local);
  added.space = space;
  std::construct_at(decisions_.at(count_));
  ++count_;
}

void Followers::flush() noexcept {
  if (count_ == 0) return;
  try {
    local_->store().decide(std::span(requests_.at(0), count_), now_,
                           std::span(decisions_.at(0), count_));
  } catch (const std::exception&) {
    // What the store has answered stands all the same.
  }
  count_ = 0;
}

}  // namespace sluice
