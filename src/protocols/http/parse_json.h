#pragma once

#include <boost/json/storage_ptr.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::http {

/// The deepest valid body is {"checks": [{}]}. One more level, so that an error there can name the
/// member.
inline constexpr std::size_t kMaxJsonDepth = 4;
/// The most members of one object; valid requests have fewer.
inline constexpr std::size_t kMaxJsonMembers = 16;
/// The most members and elements of all objects and arrays of a body; 10,000 arrivals with a cost
/// have some 30,000. With as many as 1 MiB has room for, a thread would be busy for tens of
/// milliseconds.
inline constexpr std::size_t kMaxJsonValues = 32'768;

/// The value of a JSON text, kept in `storage`. Throws Problem if the text is not JSON or is nested
/// too deeply, has too many values, or if an object has a member twice: JSON leaves open which of
/// them counts, so a proxy that looked at the body may have read the other one.
boost::json::value parse_json(std::string_view text, const boost::json::storage_ptr& storage);

/// A member's name as sentences show it.
std::string quoted_name(std::string_view name);

}  // namespace sluice::http
