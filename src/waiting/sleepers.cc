#include "waiting/sleepers.h"

#include <utility>

namespace sluice {

Sleepers::Sleeper::Sleeper(Sleepers& sleepers, std::string_view key, const LimitBinding& binding,
                           Wake wake)
    : sleepers_(sleepers), binding_(binding), wake_(std::move(wake)) {
  const std::lock_guard lock(sleepers_.mutex_);
  place_ = sleepers_.sleepers_.emplace(std::string(key), this);
}

Sleepers::Sleeper::~Sleeper() {
  const std::lock_guard lock(sleepers_.mutex_);
  sleepers_.sleepers_.erase(place_);
}

void Sleepers::wake(std::string_view key, Waking why) {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = sleepers_.equal_range(key);
  for (auto sleeper = begin; sleeper != end; ++sleeper) sleeper->second->wake_(why);
}

void Sleepers::wake_all(const LimitBinding& binding, Waking why) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, sleeper] : sleepers_) {
    if (&sleeper->binding_ == &binding) sleeper->wake_(why);
  }
}

}  // namespace sluice
