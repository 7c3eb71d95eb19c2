#pragma once

#include <boost/json/storage_ptr.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::http {

/// The deepest body is {"checks": [{}]}; one more level, so that what is wrong there can be named.
inline constexpr std::size_t kMaxJsonDepth = 4;
/// Of one object; none that a request may have has as many.
inline constexpr std::size_t kMaxJsonMembers = 16;

/// The value of a JSON text, kept in `storage`. Throws Problem where it is no JSON, or nested too
/// deeply, or where an object has a member twice: JSON leaves open which of them counts, so that a
/// proxy which has looked at the body may have read another one.
boost::json::value parse_json(std::string_view text, const boost::json::storage_ptr& storage);

/// A member's name as sentences show it.
std::string quoted_name(std::string_view name);

}  // namespace sluice::http
