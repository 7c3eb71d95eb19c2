#pragma once

#include <string>
#include <string_view>

namespace sluice {

// A part of a request's URI in one of its spellings, for keys: otherwise a client would have a
// limit of its own for each spelling.

/// The authority of a whole URL, "a.com:80" of "http://a.com:80/b"; empty if the target is a path.
std::string_view authority_of(std::string_view target);

/// Appends the host of an authority: without its port and a final dot, in small letters.
void append_normal_host(std::string_view authority, std::string& output);

/// Appends the path of a request's target, or of a whole URL: it ends before the query or fragment.
/// Letters, digits and each of "-._~!$&'()*+,;=:@" are written as they are, any other byte as %XX,
/// whichever the target has: so %2F does not separate segments. Segments "." and ".." are resolved,
/// and several slashes are one. An empty path is "/"; what does not begin with a slash, such as
/// "*", is appended as it is.
void append_normal_path(std::string_view target, std::string& output);

}  // namespace sluice
