#pragma once

#include <span>
#include <string>
#include <string_view>

#include "service/decision_batch.h"

namespace sluice {

/// Writes nothing.
class NoReplies final : public ReplyWriter {
 public:
  void write_decisions(std::span<const ReplySlot>, std::span<const Decision>,
                       std::string&) override {}
  void write_unavailable(const ReplySlot&, std::string_view, std::string&) override {}
};

}  // namespace sluice
