#include "model/permit_book.h"

#include <algorithm>

namespace sluice::model {

Wide PermitBook::held_at(Wide now) const {
  return std::ranges::count_if(permits_, [&](const Permit& p) { return p.expires > now; });
}

bool PermitBook::holds(const PartCall& call) const {
  return std::ranges::any_of(
      permits_, [&](const Permit& p) { return p.id == call.permit && p.expires > call.now; });
}

void PermitBook::forget(const PartCall& call) {
  std::erase_if(permits_,
                [&](const Permit& p) { return p.expires <= call.now || p.id == call.permit; });
}

Decision PermitBook::peek(const ModelLimit& limit, Instant now) const {
  Wide last = now;
  for (const auto& permit : permits_) last = std::max(last, permit.expires);
  const Wide left = std::max(Wide{0}, limit.count - held_at(now));
  return {.allowed = true,
          .limit = limit.count,
          .remaining = static_cast<std::int64_t>(left),
          .reset_after = ns(last - now)};
}

Decision PermitBook::denied(const ModelLimit& limit, Instant now, Wide retry) const {
  Decision decision = peek(limit, now);
  decision.allowed = false;
  decision.retry_after = ns(retry);
  return decision;
}

Decision PermitBook::take(const ModelLimit& limit, const PartCall& call) {
  if (call.cost == 0) return peek(limit, call.now);
  if (call.cost > 1) return denied(limit, call.now, kNever.count());
  if (held_at(call.now) >= limit.count) {
    // There is room when so many have expired that fewer than the limit are held.
    Wide room = -1;
    for (const auto& permit : permits_) {
      const bool enough = permit.expires > call.now && held_at(permit.expires) < limit.count;
      if (enough && (room < 0 || permit.expires < room)) room = permit.expires;
    }
    return denied(limit, call.now, room - call.now);
  }
  forget(call);
  permits_.push_back({call.permit, Wide{call.now} + limit.window_ns});
  return peek(limit, call.now);
}

Decision PermitBook::renew(const ModelLimit& limit, const PartCall& call) {
  if (!holds(call)) return denied(limit, call.now, kNever.count());
  forget(call);
  permits_.push_back({call.permit, Wide{call.now} + limit.window_ns});
  return peek(limit, call.now);
}

Decision PermitBook::release(const ModelLimit& limit, const PartCall& call) {
  if (!holds(call)) return denied(limit, call.now, kNever.count());
  forget(call);
  return peek(limit, call.now);
}

}  // namespace sluice::model
