#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch.h"
#include "service/outcome_counters.h"
#include "service/reply_slot.h"
#include "sluice/decision.h"

namespace sluice {

/// What a protocol tells a client whose connection is closed by
/// StreamHandler::EndReason::kNoMemory.
inline constexpr std::string_view kNoMemoryText =
    "the connections of the server hold as much as they may (max_client_bytes)";

/// Writes replies in the format of a protocol, which implements this.
class ReplyWriter {
 public:
  /// Appends the replies to these decisions, in order. REQUIRES: as many slots as decisions.
  virtual void write_decisions(std::span<const ReplySlot> slots,
                               std::span<const Decision> decisions, std::string& output) = 0;
  /// Appends the reply to a request that the store did not decide; `why` is a sentence.
  virtual void write_unavailable(const ReplySlot& slot, std::string_view why,
                                 std::string& output) = 0;

  /// Appends the reply to the requests of a batch that is asked together: the answer to all, and
  /// the decision of each part. `slot` is that of the first.
  virtual void write_together(const ReplySlot& slot, const Decision& whole,
                              std::span<const Decision> parts, std::string& output) = 0;
  /// Appends the reply to such requests where they cannot be asked together; `why` is a sentence.
  virtual void write_refused(const ReplySlot& slot, std::string_view why, std::string& output) = 0;

 protected:
  ~ReplyWriter() = default;
};

/// The answer to requests that are decided together.
struct TogetherAnswer {
  Decision whole = {};
  std::vector<Decision> parts;  // Of the claims or, of a single claim, of the parts of its limit.
  bool is_refused = false;      // They cannot be asked together: Answers::error says why.
};

/// The decisions of a batch, and the replies to the commands between them that ask for no decision
/// (a PING, an error), which must be sent in the order of the commands.
struct Answers {
  std::vector<ReplySlot> slots;
  std::optional<TogetherAnswer> together;  // If all requests are decided together.
  std::vector<Decision> decisions;         // Otherwise: at least as many as slots.
  std::string other_replies;
  std::string error;                        // Why the store did not make some of the decisions.
  std::optional<std::int64_t> duration_ns;  // From asking the store to its answer.
  // If overrides have answered some of the requests, or some limits are in a dry run:
  bool is_mixed = false;
  std::vector<Decision> overridden;         // The decisions of those that overrides have answered.
  std::vector<std::int64_t> dry_run_units;  // What each dry run asks for.

  /// A request that was denied.
  struct Denial {
    std::uint16_t limit = 0;
    std::string key = {};
  };
  std::vector<Denial> denials;  // Without those of overrides and dry runs.

  /// Notes the key of a request that takes units, if this decision denies it; not in a dry run.
  void note_denial(const ReplySlot& slot, std::string_view key, const Decision& decision);
  /// What the limit of this slot says itself. REQUIRES: together.
  const Decision& own_decision(std::size_t slot) const;

  /// Notes the keys of denied requests, adds the decisions of overrides to those of the store, and
  /// replaces denials of limits in a dry run. Called once, before write(). REQUIRES: the
  /// requests are not decided together; the decisions are those of the requests that the store was
  /// asked, in order.
  void settle(std::span<const Request> requests);

  /// Appends all replies in order, and counts the decisions.
  void write(ReplyWriter& writer, OutcomeCounters& counters, std::string& output) const;

 private:
  void write_together(ReplyWriter& writer, OutcomeCounters& counters, std::string& output) const;
  std::size_t row_from(std::size_t begin) const;
};

/// Replaces the decision of a limit in a dry run, about a request for `units` units, by what the
/// client is told: allowed, without a delay.
void allow_dry_run(Decision& decision, const ReplySlot& slot, std::int64_t units);

/// The source that granted units or a permit, to which they are returned. It is not the store if
/// the store has not charged them (an override, or a dry run that would have denied).
inline Source giver_of(const Decision& decision) {
  return decision.would_deny ? Source::kOverride : decision.source;
}

}  // namespace sluice
