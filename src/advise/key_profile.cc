#include "advise/key_profile.h"

#include <algorithm>

namespace sluice::advise {

std::uint32_t TextNumbers::number(std::string_view text) {
  text = text.substr(0, kMaxTextBytes);
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return found->second;
  if (texts_.size() > kMaxTexts) return kUnknown;
  texts_.emplace_back(text);
  const auto number = static_cast<std::uint32_t>(texts_.size() - 1);
  numbers_.emplace(texts_.back(), number);
  return number;
}

void FrequentTexts::add(std::uint32_t number) {
  if (number == TextNumbers::kUnknown) return;
  Entry* free = nullptr;
  for (Entry& entry : entries_) {
    if (entry.at_least == 0) {
      free = &entry;
    } else if (entry.number == number) {
      ++entry.at_least;
      return;
    }
  }
  if (free != nullptr) {
    *free = {number, 1};
    return;
  }
  for (Entry& entry : entries_) --entry.at_least;
}

FrequentTexts::Entry FrequentTexts::most_frequent() const {
  return *std::max_element(entries_.begin(), entries_.end(),
                           [](const Entry& a, const Entry& b) { return a.at_least < b.at_least; });
}

}  // namespace sluice::advise
