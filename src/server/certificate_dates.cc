#include "server/certificate_dates.h"

#include <string>

#include "core/number_text.h"

namespace sluice {

std::vector<LogEvent> certificate_warnings(std::span<const ServedCertificate> certificates,
                                           std::int64_t now_s) {
  constexpr std::int64_t kDayS = 24 * 60 * 60;
  std::vector<LogEvent> warnings;
  for (const ServedCertificate& each : certificates) {
    const std::int64_t left_s = each.not_after_s - now_s;
    if (left_s >= kCertificateWarningDays * kDayS) continue;
    const std::string when =
        left_s > 0
            ? "ends within " + counted(static_cast<std::size_t>((left_s - 1) / kDayS + 1), "day")
            : "has ended: clients refuse it";
    warnings.push_back({LogLevel::kWarning,
                        "certificate_ends",
                        "the certificate that is shown on " + each.listener + " " + when,
                        {{"listener", each.listener}, {"left_seconds", left_s}}});
  }
  return warnings;
}

}  // namespace sluice
