#pragma once

#include <cstdint>

namespace sluice {

/// What DecisionBatch remembers of a request until its reply is written.
struct ReplySlot {
  /// A number that the protocol chooses and only the protocol understands, for example the form of
  /// the reply.
  std::uint32_t tag = 0;
  /// Under which limit the decision is counted: RegisteredLimit::number, or 0 for a limit without a
  /// name.
  std::uint16_t limit = 0;
  /// Whether the client may get a decision that this process made in the store's place.
  /// DecisionBatch sets it for takes, and for returns of what this process granted.
  bool may_be_local = false;
  /// Whether a refund or a charge settles units that were reserved before: if the store has charged
  /// them, it is asked, whatever override its key has now.
  bool settles = false;
  // Set by DecisionBatch.
  bool is_counted = false;
  bool is_answered = false;  // By an override: the store is not asked.
  bool is_dry_run = false;
  bool is_take_up_to = false;
  std::uint32_t others_before = 0;  // How many bytes of Answers::other_replies precede it.
};

}  // namespace sluice
