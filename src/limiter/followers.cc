#include "limiter/followers.h"

#include <exception>
#include <span>

namespace sluice {

void Followers::add(const Answered& answered) {
  if (local_ == nullptr) return;
  const Instant sent = answered.sent;
  const bool at_once = sent - kMillisecondNs < now_ && now_ < sent + kMillisecondNs;
  if (count_ > 0 && !at_once) flush();
  Request& added = *std::construct_at(requests_.at(count_));
  if (!local_->follow(answered.request, answered.answer, added)) return;
  added.space = answered.space;
  std::construct_at(places_.at(count_), local_->store().place_of(*added.space, answered.key));
  if (count_ == 0) now_ = sent;
  if (++count_ == kMost) flush();
}

void Followers::expect(const Space& space, const KeyHash& key) {
  const memory::Place place = local_->store().place_of(space, key);
  __builtin_prefetch(place.shard, 1);
  std::construct_at(expected_.at(expected_count_++), place);
}

void Followers::fetch() {
  for (const memory::Place& place : std::span(expected_.at(0), expected_count_)) {
    place.shard->prefetch(place.tag);
  }
  expected_count_ = 0;
}

void Followers::flush() noexcept {
  if (count_ == 0) return;
  try {
    local_->store().carry_out(std::span(places_.at(0), count_), std::span(requests_.at(0), count_),
                              now_);
  } catch (const std::exception&) {
    // What the store has answered stands all the same.
  }
  count_ = 0;
}

}  // namespace sluice
