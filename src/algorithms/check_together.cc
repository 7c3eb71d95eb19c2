#include "algorithms/check_together.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "algorithms/limit_definition.h"
#include "core/store.h"

namespace sluice {

void check_together(std::span<const Request> requests) {
  if (requests.size() > kMaxTogether) {
    throw std::invalid_argument("at most " + std::to_string(kMaxTogether) +
                                " requests are asked together, not " +
                                std::to_string(requests.size()));
  }
  for (auto request = requests.begin(); request != requests.end(); ++request) {
    if (lends(*request->limit)) throw std::invalid_argument("permits are acquired one by one");
    if (request->operation != Operation::kTake) {
      throw std::invalid_argument("requests that are asked together only take");
    }
    const bool is_named_before = std::any_of(requests.begin(), request, [&](const Request& other) {
      return other.space == request->space && other.key == request->key;
    });
    if (is_named_before) {
      throw std::invalid_argument("the limit '" + request->limit->space +
                                  "' is named twice for one key");
    }
  }
}

}  // namespace sluice
