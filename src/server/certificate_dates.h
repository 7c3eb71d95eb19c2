#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/log.h"
#include "service/server_context.h"

namespace sluice {

/// The log warns of a certificate that ends sooner than this.
inline constexpr std::int64_t kCertificateWarningDays = 14;

/// A warning for each certificate that ends within kCertificateWarningDays of `now_s`, or has
/// ended. `now_s`: seconds since the Unix epoch.
std::vector<LogEvent> certificate_warnings(std::span<const ServedCertificate> certificates,
                                           std::int64_t now_s);

}  // namespace sluice
