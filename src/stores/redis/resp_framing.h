#pragma once

#include <cstddef>
#include <string_view>

#include "net/command.h"

namespace sluice::redis {

/// Finds where a RESP2 or RESP3 reply ends, looking at each byte once however it arrives.
class RespFraming final : public Framing {
 public:
  std::size_t reply_bytes(std::string_view input) override;

 private:
  enum class Found { kWhole, kPart, kMalformed };

  Found skip_line(std::string_view input);

  std::size_t at_ = 0;       // Up to here all is understood.
  std::size_t missing_ = 1;  // Values that are still to come.
};

}  // namespace sluice::redis
