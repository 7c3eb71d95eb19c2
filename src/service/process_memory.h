#pragma once

#include <cstdint>

namespace sluice {

/// The bytes of this process that are in the machine's memory; 0 where the system does not tell.
std::uint64_t resident_bytes();

}  // namespace sluice
