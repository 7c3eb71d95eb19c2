#include "stores/redis/redis_space.h"

#include <boost/crc.hpp>
#include <cassert>

#include "core/safe_text.h"
#include "stores/redis/part_codec.h"
#include "stores/redis/resp.h"

namespace sluice::redis {
namespace {

// No text in UTF-8 begins with it.
constexpr char kMark = '\xf5';

}  // namespace

void append_encoded(std::string& output, std::string_view name) {
  constexpr auto kNone = std::string_view::npos;
  if (name.empty()) output += '%';
  // The usual case; find() compares many bytes at once.
  if (name.find('{') == kNone && name.find('}') == kNone && name.find('%') == kNone) {
    output += name;
    return;
  }
  for (const char& c : name) {
    output += c == '{' ? "%7B" : c == '}' ? "%7D" : c == '%' ? "%25" : std::string_view(&c, 1);
  }
}

RedisSpace::RedisSpace(std::string_view prefix, const LimitDefinition& limit)
    : parts_(limit.parts) {
  append_encoded(front_, prefix);
  append_encoded(front_ += ':', limit.space);
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
          places_.push_back({.state = state_bytes, .summary = summary_bytes_});
          state_bytes += PartCodec<A>::kStateBytes;
          if constexpr (kIsSummed<A>) summary_bytes_ += kSummaryBytes;
          has_ring = has_ring || kIsRing<A>;
        },
        part);
  }
  for (PartPlace& place : places_) place.state += begins.size();
  head_bytes_ = static_cast<std::uint16_t>(begins.size() + state_bytes + kInstantsBytes);
  // A ring may be long, and most often the head is enough.
  arguments_ = {begins, std::to_string(begins.size()),
                has_ring ? std::to_string(head_bytes_ - 1) : ""};
}

void RedisSpace::name_of(std::string_view key, std::string& name) const {
  name = front_;
  append_encoded(name, key);
  name += '}';
}

std::string redis_key(const Space& space, std::string_view key) {
  assert(dynamic_cast<const RedisSpace*>(&space) != nullptr);
  std::string name;
  static_cast<const RedisSpace&>(space).name_of(key, name);
  return name;
}

std::string names_of(std::span<const Request> requests) {
  constexpr std::size_t kColumns = 300;
  std::string names;
  for (const Request& one : requests) {
    names += names.empty() ? "'" : ", '";
    names += printable(redis_key(*one.space, one.key), kColumns) + "'";
  }
  return names;
}

std::uint16_t slot_of(std::string_view redis_key) {
  std::string_view tag = redis_key;
  if (const std::size_t open = redis_key.find('{'); open != std::string_view::npos) {
    const std::size_t close = redis_key.find('}', open + 1);
    if (close != std::string_view::npos && close != open + 1) {
      tag = redis_key.substr(open + 1, close - open - 1);
    }
  }
  boost::crc_xmodem_t crc;
  crc.process_bytes(tag.data(), tag.size());
  return static_cast<std::uint16_t>(crc.checksum() % kSlots);
}

}  // namespace sluice::redis
