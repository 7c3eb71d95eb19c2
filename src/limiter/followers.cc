#include "limiter/followers.h"

#include <exception>
#include <span>

namespace sluice {

void Followers::add(const Request& request, const Decision& answer, Instant sent, Space* space) {
  if (local_ == nullptr) return;
  const bool at_once = sent - kMillisecondNs < now_ && now_ < sent + kMillisecondNs;
  if (count_ > 0 && !at_once) flush();
  Request& added = *std::construct_at(requests_.at(count_));
  if (!local_->follow(request, answer, added)) return;
  added.space = space;
  std::construct_at(decisions_.at(count_));
  if (count_ == 0) now_ = sent;
  if (++count_ == kMost) flush();
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
