#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::advise {

/// "17 h 1 min", the two largest units.
std::string duration_text(std::int64_t ns);

/// "1 key", "1,234 keys".
std::string count_of(std::uint64_t count, std::string_view thing);

}  // namespace sluice::advise
