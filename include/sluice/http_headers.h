#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/decision.h"
#include "sluice/export.h"
#include "sluice/limit.h"

namespace sluice {

/// Which headers tell an HTTP client about its limits.
enum class HeaderStyle : std::uint8_t {
  /// "ietf-11": RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11.
  kIetf11,
  /// "x-ratelimit": X-RateLimit-Limit, -Remaining and -Reset, the last in seconds from now.
  kXRateLimit,
  /// "x-ratelimit-epoch": the same, with -Reset as a Unix time in seconds.
  kXRateLimitEpoch,
  /// "draft-3": RateLimit-Limit, -Remaining and -Reset, the last in seconds from now.
  kDraft3,
  /// "none": no headers but those that every denial has.
  kNone,
};

/// The style of this name, for programs that read it from a file. Throws std::invalid_argument,
/// whose text lists the names, if there is no such style.
SLUICE_EXPORT HeaderStyle header_style(std::string_view name);

/// A header of an HTTP response.
struct HttpHeader {
  /// A constant, with capitals as in the specification.
  std::string_view name;
  /// Printable ASCII.
  std::string value;

  /// True if both members are equal.
  friend bool operator==(const HttpHeader&, const HttpHeader&) = default;
};

/// The headers of an HTTP response that tell the client about these decisions. `answers` are the
/// limits that were asked for this request, each with its decision, in the order in which the
/// client shall see them. `now` is the present time; only kXRateLimitEpoch uses it. All times are
/// rounded up to whole seconds, so that a client that returns then is not too early.
///
/// - kIetf11: RateLimit-Policy has a member for each limit: the name, the quota q, the window w.
///   RateLimit has the units r that are left, and t: the client can use no more than r within t
///   seconds. After a denial r is 0 and t the wait, unless waiting does not help. A limit whose
///   window is shorter than a second has neither w nor t, and a `concurrency` limit has
///   qu="concurrent-requests" instead.
/// - The other styles have numbers for one limit only: the one that denied with the longest
///   retry_after; if none denied, the one with the fewest units left. Reset is the time until all
///   units are free.
/// - A denial also has `Cache-Control: no-store` and Retry-After: the longest retry_after, at least
///   1. There is no Retry-After if the request can never be admitted.
///
/// The name in kIetf11 is the name of the limit, or its expression if it has none. Of a limit that
/// joins parts by `&`, RateLimit-Policy has all parts, under the names of Limit::parts(), and
/// RateLimit the one that the decision's numbers belong to. If the decision of each part is known,
/// pass the parts, each with its decision, in place of the whole.
///
/// If on_failure=allow admitted the request, the units that are left are not known, and the headers
/// do not state them.
///
/// Put the headers into the header section of a response, not into trailers. The status of a denial
/// is 429. A pure function. Thread-safe.
SLUICE_EXPORT std::vector<HttpHeader> http_headers(
    std::span<const std::pair<Limit, Decision>> answers, HeaderStyle style,
    std::chrono::system_clock::time_point now);

}  // namespace sluice
