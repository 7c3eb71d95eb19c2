#include "remote/key_tape.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace sluice::bench {

KeyTape::KeyTape(const KeyArray& keys) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::minstd_rand random(1);  // The same in every run.
  cells_.reserve(kOrders * keys.size());
  for (std::size_t i = 0; i < kOrders; ++i) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t place : order) {
      const std::string_view key = keys.at(place);
      Cell& cell = cells_.emplace_back();
      std::copy(key.begin(), key.end(), cell.text.begin());
      cell.bytes = static_cast<std::uint8_t>(key.size());
    }
  }
}

}  // namespace sluice::bench
