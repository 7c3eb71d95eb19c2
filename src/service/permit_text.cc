#include "service/permit_text.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>
#include <variant>

#include "algorithms/limit_definition.h"
#include "core/ascii.h"
#include "core/read_number.h"

namespace sluice {
namespace {

// What a permit's text begins with.
constexpr std::pair<char, Source> kGivers[] = {{'s', Source::kStore},
                                               {'f', Source::kFull},
                                               {'l', Source::kLocal},
                                               {'p', Source::kPolicy},
                                               {'o', Source::kOverride}};

}  // namespace

std::string permit_text(PermitId permit, Source giver) {
  const auto* const row = std::find_if(std::begin(kGivers), std::end(kGivers),
                                       [=](const auto& one) { return one.second == giver; });
  assert(row != std::end(kGivers));
  std::string text(1, row->first);
  text += hex(permit, kPermitBytes - 1);
  return text;
}

bool read_permit(std::string_view text, PermitId& permit, Source& giver) {
  if (text.size() != kPermitBytes) return false;
  const auto* const row = std::find_if(std::begin(kGivers), std::end(kGivers),
                                       [=](const auto& one) { return one.first == text[0]; });
  if (row == std::end(kGivers)) return false;
  giver = row->second;
  return read_number(text.substr(1), permit, 16) && permit != 0;
}

std::int64_t lease_ms(const LimitDefinition& limit) {
  const auto* const part = std::get_if<Part<Concurrency>>(limit.parts.data());
  return part == nullptr ? 0 : part->params.lease_ns / kMillisecondNs;
}

}  // namespace sluice
