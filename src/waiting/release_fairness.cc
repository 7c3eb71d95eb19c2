#include "waiting/release_fairness.h"

namespace sluice {

void ReleaseFairness::granted(std::string_view key, TimePoint asked) {
  const std::lock_guard lock(mutex_);
  auto found = records_.find(key);
  if (found == records_.end()) {
    if (records_.size() >= kMostKeys) records_.clear();
    found = records_.emplace(key, Record{.began = asked, .released = asked}).first;
  }
  Record& record = found->second;
  if (asked - record.released >= run().backoff) record = {.began = asked, .released = asked};
  ++record.grants;
}

void ReleaseFairness::released(std::string_view key, TimePoint now) {
  const Run run = this->run();
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(key);
  if (found == records_.end()) return;
  Record& record = found->second;
  record.released = now;
  if (now - record.began < run.lasts || record.grants < kLeastGrants) return;
  record = {.began = now, .released = now, .backs_off_until = now + run.backoff};
}

ReleaseFairness::TimePoint ReleaseFairness::backs_off_until(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(key);
  return found == records_.end() ? TimePoint::min() : found->second.backs_off_until;
}

}  // namespace sluice
