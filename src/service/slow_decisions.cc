#include "service/slow_decisions.h"

#include <set>
#include <utility>

#include "sluice/limit.h"

namespace sluice {

SlowDecisions::SlowDecisions(NameOf name_of, std::shared_ptr<Store> reports)
    : name_of_(std::move(name_of)), limiter_(std::move(reports), Limit(kReports)) {}

void SlowDecisions::report(std::int64_t duration_ns, std::span<const ReplySlot> slots) {
  if (report_ == nullptr) return;
  if (!limiter_.check("report").allowed) {
    ++left_out_;
    return;
  }
  std::set<std::uint16_t> limits;
  for (const ReplySlot& slot : slots) limits.insert(slot.limit);
  std::string names;
  for (const std::uint16_t limit : limits) names += (names.empty() ? "" : ", ") + name_of_(limit);
  report_({.limits = std::move(names),
           .decisions = slots.size(),
           .duration = std::chrono::nanoseconds(duration_ns),
           .left_out = left_out_.exchange(0)});
}

}  // namespace sluice
