#include "limiter/turns.h"

namespace sluice {

void Turns::released(std::string_view key, TimePoint now) {
  const Turn turn = told_.load(std::memory_order_relaxed) ? kWhereTold : kWhereAsked;
  const std::lock_guard lock(mutex_);
  auto found = records_.find(key);
  if (found == records_.end()) {
    if (records_.size() >= kMostKeys) records_.clear();
    found = records_.emplace(key, Record{.began = now, .rests_until = now}).first;
  }
  Record& record = found->second;
  if (now - record.began < turn.lasts) return;
  record = {.began = now + turn.rest, .rests_until = now + turn.rest};
}

Turns::TimePoint Turns::rests_until(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(key);
  return found == records_.end() ? TimePoint::min() : found->second.rests_until;
}

}  // namespace sluice
