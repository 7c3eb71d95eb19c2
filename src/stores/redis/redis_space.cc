#include "stores/redis/redis_space.h"

#include <algorithm>

#include "stores/redis/part_codec.h"

namespace sluice::redis {
namespace {

// No text in UTF-8 begins with it.
constexpr char kMark = '\xf5';

constexpr bool is_special(char c) {
  return c == '{' || c == '}' || c == '%';
}

}  // namespace

std::size_t encoded_bytes(std::string_view name) {
  return name.size() + 2 * static_cast<std::size_t>(std::ranges::count_if(name, is_special));
}

void append_encoded(std::string& output, std::string_view name) {
  while (!name.empty()) {
    const auto special = std::ranges::find_if(name, is_special);
    const auto plain = static_cast<std::size_t>(special - name.begin());
    output += name.substr(0, plain);
    if (special == name.end()) return;
    output += *special == '{' ? "%7B" : *special == '}' ? "%7D" : "%25";
    name.remove_prefix(plain + 1);
  }
}

RedisSpace::RedisSpace(std::string_view prefix, const LimitDefinition& limit)
    : parts_(limit.parts) {
  append_encoded(front_, prefix);
  front_ += ':';
  append_encoded(front_, limit.space);
  front_ += ":{";

  std::string begins{kMark, static_cast<char>(parts_.size())};
  std::size_t state_bytes = 0;
  bool has_ring = false;
  for (const auto& part : parts_) {
    std::visit(
        [&]<class P>(const P& p) {
          using A = typename P::Algorithm;
          begins += PartCodec<A>::letter(p.params);
          PartCodec<A>::write_numbers(p.params, begins);
          state_bytes += PartCodec<A>::kStateBytes;
          if constexpr (kIsSummed<A>) ++summed_;
          has_ring = has_ring || kIsRing<A>;
        },
        part);
  }
  states_at_ = static_cast<std::uint16_t>(begins.size());
  head_bytes_ = static_cast<std::uint16_t>(states_at_ + state_bytes + sizeof(double));
  // A ring may be long, and most often the head is enough.
  arguments_ = {begins, std::to_string(states_at_),
                has_ring ? std::to_string(head_bytes_ - 1) : ""};
}

std::size_t RedisSpace::bytes() const {
  constexpr std::size_t kEach = 16;  // "$<length>\r\n", "\r\n"
  std::size_t bytes = front_.size() + kEach;
  for (const std::string& argument : arguments_) bytes += argument.size() + kEach;
  return bytes;
}

void append_redis_key(std::string& output, const Space& space, std::string_view key) {
  output += static_cast<const RedisSpace&>(space).front();
  append_encoded(output, key);
  output += '}';
}

std::string redis_key(const Space& space, std::string_view key) {
  std::string output;
  append_redis_key(output, space, key);
  return output;
}

}  // namespace sluice::redis
