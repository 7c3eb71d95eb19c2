#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/operation.h"
#include "sluice/decision.h"

namespace sluice {

struct LimitDefinition;

/// A permit as clients know it: an opaque text. It also says which source granted the permit, since
/// the permit is released there.
std::string permit_text(PermitId permit, Source giver);

/// The bytes of each such text.
inline constexpr std::size_t kPermitBytes = 17;

/// Reads a permit from its text. Returns false if the text is not a permit.
bool read_permit(std::string_view text, PermitId& permit, Source& giver);

/// The lease of a limit's permits in milliseconds, rounded down so that no holder renews too late.
/// 0 if the limit has no permits.
std::int64_t lease_ms(const LimitDefinition& limit);

}  // namespace sluice
