#include "stores/redis/redis_space.h"

#include "stores/redis/part_codec.h"
#include "stores/redis/redis_key.h"

namespace sluice::redis {
namespace {

// No text in UTF-8 begins with it.
constexpr char kMark = '\xf5';

void append_argument(std::string& output, const std::string& argument) {
  output += '$' + std::to_string(argument.size()) + "\r\n" + argument + "\r\n";
}

}  // namespace

RedisSpace::RedisSpace(std::string_view prefix, const LimitDefinition& limit)
    : parts_(limit.parts), front_(key_front(prefix)) {
  append_encoded(front_, limit.space);
  front_ += ":{";

  std::string begins{kMark, static_cast<char>(parts_.size())};
  std::size_t state_bytes = 0;
  for (const auto& part : parts_) {
    std::visit(
        [&]<class P>(const P& p) {
          using A = typename P::Algorithm;
          begins += PartCodec<A>::letter(p.params);
          PartCodec<A>::write_numbers(p.params, begins);
          state_bytes += PartCodec<A>::kStateBytes;
          if constexpr (kIsSummed<A>) ++summed_;
        },
        part);
  }
  states_at_ = static_cast<std::uint16_t>(begins.size());
  head_bytes_ = static_cast<std::uint16_t>(states_at_ + state_bytes + sizeof(double));
  if (summed_ < parts_.size()) answered_bytes_ = head_bytes_;
  append_argument(arguments_, begins);
  append_argument(arguments_, std::to_string(states_at_));
  append_argument(arguments_, std::to_string(head_bytes_ - 1));
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
