#include "stores/redis/slots.h"

#include <array>

namespace sluice::redis {
namespace {

constexpr std::uint32_t kPolynomial = 0x1021;

constexpr std::array<std::uint16_t, 256> make_table() {
  std::array<std::uint16_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) crc = crc << 1 ^ ((crc & 0x8000) != 0 ? kPolynomial : 0);
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}

constexpr auto kTable = make_table();

}  // namespace

std::uint16_t slot_of(std::string_view redis_key) {
  std::string_view tag = redis_key;
  if (const std::size_t open = redis_key.find('{'); open != std::string_view::npos) {
    const std::size_t close = redis_key.find('}', open + 1);
    if (close != std::string_view::npos && close != open + 1) {
      tag = redis_key.substr(open + 1, close - open - 1);
    }
  }
  std::uint16_t crc = 0;
  for (const char c : tag) {
    const auto index = static_cast<std::uint8_t>(crc >> 8 ^ static_cast<std::uint8_t>(c));
    crc = static_cast<std::uint16_t>(crc << 8 ^ kTable[index]);
  }
  return static_cast<std::uint16_t>(crc % kSlots);
}

}  // namespace sluice::redis
