#pragma once

#include <functional>
#include <string>

namespace sluice::servers {

/// Calls `is_so` every few milliseconds until it returns true. If that takes longer than kPatience,
/// throws std::runtime_error that names `what`.
void await(const std::string& what, const std::function<bool()>& is_so);

}  // namespace sluice::servers
