#include <algorithm>
#include <cstdlib>

#include "conformance/every_store.h"
#include "stores/stores.h"

namespace sluice::conformance {
namespace {

StoreCase row(const std::string& name, const std::string& url, double share) {
  return {name, [url] { return open_store(url, {.virtual_time = true}); }, share};
}

// A new store is one more row.
INSTANTIATE_TEST_SUITE_P(Stores, EveryStore, testing::Values(row("Memory", "memory:", 1)),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace

int scaled(int cases, const StoreCase& store) {
  const char* text = std::getenv("SLUICE_TEST_SCALE");
  const double scale = text == nullptr ? 1.0 : std::atof(text);
  return std::max(1, static_cast<int>(cases * scale * store.share));
}

}  // namespace sluice::conformance
