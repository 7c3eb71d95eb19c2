#include "service/permit_text.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <utility>
#include <variant>

#include "algorithms/limit_definition.h"

namespace sluice {
namespace {

constexpr int kHexadecimal = 16;

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
  std::string digits(kPermitBytes - 1, '0');
  char written[kPermitBytes];
  const auto* const end = std::to_chars(written, written + kPermitBytes, permit, kHexadecimal).ptr;
  const auto size = static_cast<std::size_t>(end - written);
  digits.replace(digits.size() - size, size, written, size);
  return row->first + digits;
}

bool read_permit(std::string_view text, PermitId& permit, Source& giver) {
  if (text.size() != kPermitBytes) return false;
  const auto* const row = std::find_if(std::begin(kGivers), std::end(kGivers),
                                       [=](const auto& one) { return one.first == text[0]; });
  if (row == std::end(kGivers)) return false;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + 1, end, permit, kHexadecimal);
  giver = row->second;
  return error == std::errc{} && stop == end && permit != 0;
}

std::int64_t lease_ms(const LimitDefinition& limit) {
  const auto* const part = std::get_if<Part<Concurrency>>(limit.parts.data());
  return part == nullptr ? 0 : part->params.lease_ns / kMillisecondNs;
}

}  // namespace sluice
