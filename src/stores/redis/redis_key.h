#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::redis {

/// Names of keys in Redis, "prefix:space:{key}". What stands in the braces alone chooses a
/// cluster's slot, so '{', '}' and '%' of the names are written as "%7B", "%7D" and "%25"; all
/// other bytes stay as they are.

/// The bytes that append_encoded() appends.
std::size_t encoded_bytes(std::string_view name);

void append_encoded(std::string& output, std::string_view name);

/// What all keys under a prefix begin with: "prefix:", encoded.
std::string key_front(std::string_view prefix);

}  // namespace sluice::redis
