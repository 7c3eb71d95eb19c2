#include "stores/redis/redis_key.h"

#include <algorithm>
#include <array>

namespace sluice::redis {
namespace {

constexpr bool is_special(char c) {
  return c == '{' || c == '}' || c == '%';
}

constexpr auto kIsSpecial = [] {
  std::array<bool, 256> special{};
  for (std::size_t i = 0; i < special.size(); ++i) special[i] = is_special(static_cast<char>(i));
  return special;
}();

}  // namespace

std::size_t encoded_bytes(std::string_view name) {
  // Without a branch: it is counted for every decision.
  unsigned specials = 0;
  for (const char c : name) specials += kIsSpecial[static_cast<unsigned char>(c)];
  return name.size() + std::size_t{2} * specials;
}

void append_encoded(std::string& output, std::string_view name) {
  while (!name.empty()) {
    const auto special = std::find_if(name.begin(), name.end(), is_special);
    const auto plain = static_cast<std::size_t>(special - name.begin());
    output.append(name.substr(0, plain));
    if (special == name.end()) return;
    output += *special == '{' ? "%7B" : *special == '}' ? "%7D" : "%25";
    name.remove_prefix(plain + 1);
  }
}

std::string key_front(std::string_view prefix) {
  std::string front;
  append_encoded(front, prefix);
  return front + ':';
}

}  // namespace sluice::redis
