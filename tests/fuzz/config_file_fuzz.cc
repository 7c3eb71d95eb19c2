// The server's file: any input is read, or refused in one sentence.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/config_error.h"
#include "server/config_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const sluice::ServerOptions options = sluice::parse_config(text, "sluice.yaml");
    for (const auto& limit : options.limits.named) {
      if (limit.limit.expression().empty()) std::abort();
    }
    if (sluice::summary_of(options).find('\n') != std::string::npos) std::abort();
  } catch (const sluice::ConfigError& error) {
    if (!std::string_view(error.what()).starts_with("sluice.yaml:")) std::abort();
  }
  return 0;
}
