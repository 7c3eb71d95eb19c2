// The limit expression: any text is refused with a position inside it or just behind its end, or it
// has a canonical form, which is that of the canonical form itself.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "algorithms/limit_definition.h"
#include "sluice/limit.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const sluice::Limit limit(text);
    if (sluice::Limit(limit.expression()).expression() != limit.expression()) std::abort();
    if (sluice::parse_parts(text) != limit.definition().parts) std::abort();
  } catch (const sluice::InvalidLimit& error) {
    if (error.position() > size) std::abort();
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
