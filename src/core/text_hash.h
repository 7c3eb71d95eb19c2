#pragma once

#include <functional>
#include <string_view>

namespace sluice {

/// Hashes texts, so that a map of strings can be searched by a view.
struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

}  // namespace sluice
