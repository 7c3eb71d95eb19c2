#include "stores/redis/redis_key.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace sluice::redis {
namespace {

constexpr bool is_special(char c) {
  return c == '{' || c == '}' || c == '%';
}

// Sixteen characters at once: this is asked for every decision.
using Characters [[gnu::vector_size(16)]] = char;
using Halves = std::array<std::uint64_t, 2>;

template <class T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

bool any_special(Characters name) {
  const auto special = std::bit_cast<Halves>((name == '{') | (name == '}') | (name == '%'));
  return (special[0] | special[1]) != 0;
}

// The last characters are looked at from the end on, and so some of them twice.
bool any_special(std::string_view name) {
  constexpr std::size_t kAll = sizeof(Characters);
  constexpr std::size_t kHalf = kAll / 2;
  const char* at = name.data();
  const char* const end = at + name.size();
  if (name.size() < kHalf) return std::ranges::any_of(name, is_special);
  if (name.size() < kAll) {
    const Halves halves{load<std::uint64_t>(at), load<std::uint64_t>(end - kHalf)};
    return any_special(std::bit_cast<Characters>(halves));
  }
  for (; at < end - kAll; at += kAll) {
    if (any_special(load<Characters>(at))) return true;
  }
  return any_special(load<Characters>(end - kAll));
}

}  // namespace

std::size_t encoded_bytes(std::string_view name) {
  if (!any_special(name)) return name.size();
  return name.size() + 2 * static_cast<std::size_t>(std::ranges::count_if(name, is_special));
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
