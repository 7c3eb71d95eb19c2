#include "stores/redis/redis_key.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sluice::redis {
namespace {

constexpr bool is_special(char c) {
  return c == '{' || c == '}' || c == '%';
}

// Eight characters at once.
using Word = std::uint64_t;
constexpr Word kEachByte = 0x0101010101010101;

// The upper bit of each byte that is this character, and no other bit.
constexpr Word find(Word word, char c) {
  constexpr Word kLower = 0x7F * kEachByte;
  const Word others = word ^ (static_cast<unsigned char>(c) * kEachByte);
  return ~(((others & kLower) + kLower) | others | kLower);
}

constexpr std::size_t specials_in(Word word) {
  const Word found = find(word, '{') | find(word, '}') | find(word, '%');
  return static_cast<std::size_t>(((found >> 7) * kEachByte) >> 56);
}

Word load_word(const char* at) {
  Word word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

}  // namespace

std::size_t encoded_bytes(std::string_view name) {
  // In words: it is counted for every decision.
  std::size_t specials = 0;
  std::size_t left = name.size();
  if (left < sizeof(Word)) {
    specials = static_cast<std::size_t>(std::ranges::count_if(name, is_special));
  } else {
    const char* at = name.data();
    for (; left >= sizeof(Word); left -= sizeof(Word), at += sizeof(Word)) {
      specials += specials_in(load_word(at));
    }
    // The last characters again, without those that are counted already.
    const Word last = load_word(at + left - sizeof(Word));
    if (left > 0) specials += specials_in(last >> (8 * (sizeof(Word) - left)));
  }
  return name.size() + 2 * specials;
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
