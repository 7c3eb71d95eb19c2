#pragma once

#include <functional>
#include <string>

namespace sluice::servers {

/// Returns once it is so; asks every few milliseconds. Throws std::runtime_error, which says what
/// was awaited, where that takes longer than kPatience.
void await(const std::string& what, const std::function<bool()>& is_so);

}  // namespace sluice::servers
