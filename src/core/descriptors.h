#pragma once

#include <cstddef>

namespace sluice {

/// Raises the limit of this process's open descriptors to `wanted`, or as far as the system allows.
/// Never lowers it. Returns the limit, at most `wanted`.
std::size_t allow_descriptors(std::size_t wanted);

}  // namespace sluice
