#pragma once

#include <cstdint>

#include "service/decision_batch.h"

namespace sluice::resp {

/// How the reply to a decision is written. A request's ReplySlot::tag says which.
enum class Form : std::uint8_t {
  kThrottle,  ///< limited, limit, remaining, retry_after and reset_after in seconds.
  kCheck,     ///< allowed, limit, remaining, retry_after, reset_after and delay in milliseconds.
  kDone,      ///< OK.
};

constexpr std::uint32_t tag_of(Form form) {
  return static_cast<std::uint32_t>(form);
}

/// Writes each decision in the form that its tag says. The reply to a request that the store did
/// not decide is an error UNAVAILABLE.
class DecisionReplies final : public ReplyWriter {
 public:
  void write_decisions(std::span<const ReplySlot> slots, std::span<const Decision> decisions,
                       std::string& output) override;
  void write_unavailable(const ReplySlot& slot, std::string_view why, std::string& output) override;
};

}  // namespace sluice::resp
