#include "limiter/turns.h"

namespace sluice {

Turns::Turn Turns::turn() const {
  return told_.load(std::memory_order_relaxed) ? kWhereTold : kWhereAsked;
}

void Turns::granted(std::string_view key, TimePoint now) {
  const Turn turn = this->turn();
  const std::lock_guard lock(mutex_);
  auto found = records_.find(key);
  if (found == records_.end()) {
    if (records_.size() >= kMostKeys) records_.clear();
    found = records_.emplace(key, Record{.began = now, .given_back = now}).first;
  }
  Record& record = found->second;
  if (now - record.given_back >= turn.rest) record = {.began = now, .given_back = now};
  ++record.grants;
}

void Turns::released(std::string_view key, TimePoint now) {
  const Turn turn = this->turn();
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(key);
  if (found == records_.end()) return;
  Record& record = found->second;
  record.given_back = now;
  if (now - record.began < turn.lasts || record.grants < kLeastGrants) return;
  record = {.began = now, .given_back = now, .rests_until = now + turn.rest};
}

Turns::TimePoint Turns::rests_until(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(key);
  return found == records_.end() ? TimePoint::min() : found->second.rests_until;
}

}  // namespace sluice
