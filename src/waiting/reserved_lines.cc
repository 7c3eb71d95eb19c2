#include "waiting/reserved_lines.h"

#include <algorithm>
#include <utility>

#include "waiting/requests.h"

namespace sluice {

ReservedLines::Place::Place(ReservedLines& lines, const std::shared_ptr<TimerQueue>& timer,
                            std::string_view key, Ask ask)
    : lines_(lines), key_(key), ask_(std::move(ask)) {
  Line& line = lines_.lines_[key_];
  place_ = line.callers.insert(line.callers.end(), this);
  lines_.size_.fetch_add(1, std::memory_order_relaxed);
  if (ask_ == nullptr || line.timer != nullptr) return;
  line.timer = timer;
  lines_.ask_after_pause(line, key_);
}

ReservedLines::Place::~Place() {
  const auto line = lines_.lines_.find(key_);
  line->second.callers.erase(place_);
  lines_.size_.fetch_sub(1, std::memory_order_relaxed);
  if (!line->second.callers.empty()) return;
  if (line->second.timer != nullptr) line->second.timer->cancel(line->second.next_ask);
  lines_.lines_.erase(line);
}

void ReservedLines::ask(std::string_view key) {
  const auto found = lines_.find(key);
  if (found == lines_.end()) return;
  Line& line = found->second;
  std::ranges::any_of(line.callers, [](const Place* caller) { return caller->ask_(); });
  line.timer->cancel(line.next_ask);
  ask_after_pause(line, key);
}

// While the line exists, so does the space.
void ReservedLines::ask_after_pause(Line& line, std::string_view key) {
  line.next_ask = line.timer->at(line.timer->after(kPauseForUnits),
                                 [this, own = std::string(key)] { ask(own); });
}

}  // namespace sluice
