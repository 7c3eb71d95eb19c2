#pragma once

#include <algorithm>
#include <cstdint>

#include "core/arithmetic.h"
#include "core/instant.h"

namespace sluice::memcached {

/// Above this a server reads an expiry as a date: 30 days, in seconds.
inline constexpr std::int64_t kMostRelativeExpiry = 60 * 60 * 24 * 30;
/// The last date a server can read.
inline constexpr std::int64_t kLastExpiry = 2'147'483'647;

/// The expiry, in seconds as a server reads them, of a value that has to be kept for `lifetime_ns`
/// (at least 0) from `real_now` on, the instant by the real clock. A server's clock ticks once a
/// second, so that a lifetime of 1 ends after anything up to a second: one more is asked for. What
/// would end after January 2038 ends there.
constexpr std::int64_t expiry_s(std::int64_t lifetime_ns, Instant real_now) {
  const std::int64_t seconds = ceil_divide(lifetime_ns, kSecondNs) + 1;
  if (seconds <= kMostRelativeExpiry) return seconds;
  return std::min(real_now / kSecondNs + seconds, kLastExpiry);
}

/// Until then a value that is written now with such an expiry is kept, if nothing else befalls it.
constexpr Instant kept_until(std::int64_t lifetime_ns, Instant real_now) {
  constexpr Instant kLast = kLastExpiry * kSecondNs;
  if (lifetime_ns >= kLast - real_now) return kLast;
  return std::min(kLast, real_now + ceil_divide(lifetime_ns, kSecondNs) * kSecondNs);
}

}  // namespace sluice::memcached
