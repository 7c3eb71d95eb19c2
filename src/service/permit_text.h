#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/operation.h"
#include "sluice/decision.h"

namespace sluice {

struct LimitDefinition;

/// A permit as clients know it: an opaque text, which also says who granted it, since it is
/// returned there.
std::string permit_text(PermitId permit, Source giver);

/// The bytes of each such text.
inline constexpr std::size_t kPermitBytes = 17;

/// Reads the permit of a request from its text. Returns false if the text is none.
bool read_permit(std::string_view text, PermitId& permit, Source& giver);

/// The lease of a limit's permits in milliseconds, rounded down: no holder is told that it has
/// longer than it has. 0 if it lends none.
std::int64_t lease_ms(const LimitDefinition& limit);

}  // namespace sluice
