#include "service/overrides.h"

#include <cstring>

namespace sluice {

bool matches(std::string_view pattern, std::string_view key) {
  const std::size_t first = pattern.find('*');
  if (first == std::string_view::npos) return pattern == key;
  const std::size_t last = pattern.rfind('*');
  const std::string_view head = pattern.substr(0, first);
  const std::string_view tail = pattern.substr(last + 1);
  if (key.size() < head.size() + tail.size() || !key.starts_with(head) || !key.ends_with(tail)) {
    return false;
  }
  // Each piece between two '*' is matched at its first place, which leaves most of the key to the
  // next.
  std::string_view rest = key.substr(head.size(), key.size() - head.size() - tail.size());
  for (std::size_t star = first; star != last;) {
    const std::size_t next = pattern.find('*', star + 1);
    const std::string_view piece = pattern.substr(star + 1, next - star - 1);
    star = next;
    if (piece.empty()) continue;
    if (rest.empty()) return false;
    // Unlike find(), it takes linear time whatever key the client has sent.
    const void* const at = ::memmem(rest.data(), rest.size(), piece.data(), piece.size());
    if (at == nullptr) return false;
    rest.remove_prefix(static_cast<std::size_t>(static_cast<const char*>(at) - rest.data()) +
                       piece.size());
  }
  return true;
}

void Overrides::add(const std::string& key, KeyRule rule) {
  if (is_pattern(key)) {
    patterns_.emplace_back(key, std::move(rule));
  } else {
    exact_.emplace(key, std::move(rule));
  }
}

const KeyRule* Overrides::find(std::string_view key) const {
  if (const auto at = exact_.find(key); at != exact_.end()) return &at->second;
  for (const auto& [pattern, rule] : patterns_) {
    if (matches(pattern, key)) return &rule;
  }
  return nullptr;
}

}  // namespace sluice
