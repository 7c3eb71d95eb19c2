// The file of named limits: whatever it holds, it is read, or refused in one sentence.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/limits_file.h"
#include "server/server.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    for (const auto& limit : sluice::parse_limits(text, "limits.yaml")) {
      if (limit.expression().empty()) std::abort();
    }
  } catch (const sluice::ConfigError& error) {
    if (!std::string_view(error.what()).starts_with("limits.yaml:")) std::abort();
  }
  return 0;
}
