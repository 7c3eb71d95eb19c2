#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/operation.h"
#include "protocols/resp/writer.h"
#include "service/decision_batch.h"

namespace sluice::resp {

/// How the reply to a decision is written. A request's ReplySlot::tag says which.
enum class Form : std::uint8_t {
  kThrottle,  ///< limited, limit, remaining, retry_after and reset_after in seconds.
  kCheck,     ///< allowed, limit, remaining, retry_after, reset_after and delay in milliseconds.
  kDone,      ///< OK.
  kAllowed,   ///< allowed, limit, remaining, reset_after and retry_after in seconds.
  kTaken,     ///< As kCheck, and taken.
  kPermit,    ///< 1, the permit and its lease in milliseconds; or 0, nil and retry_after.
  kHeld,      ///< Whether the permit was held: 1 or 0.
  kTotal,     ///< Nothing, but notes the units that are taken for the kCount that follows.
  kCount,     ///< The units that are taken, and how many of them were taken now.
  kAll,       ///< The binding part, then the answer to all and each part as kCheck.
  // Several decisions tell whether a deleted key had a state, and how many such keys there were:
  kState,    ///< Nothing, but notes whether there is a state.
  kForget,   ///< Nothing.
  kKeyGone,  ///< Nothing, but counts a key of which a state was noted since the last.
  kAllGone,  ///< The same, and then the keys that were counted.
};

constexpr std::uint32_t tag_of(Form form) {
  return static_cast<std::uint32_t>(form);
}

/// Writes each decision in the form that its tag says. The reply to a request that the store did
/// not decide is an error UNAVAILABLE. Belongs to one connection.
class DecisionReplies final : public ReplyWriter {
 public:
  /// What a reply needs besides the decision.
  struct Detail {
    /// kPermit: the lease in milliseconds. kCount: the units that were asked for, or 0 if the
    /// decision has the number that it took.
    std::int64_t number = 0;
    PermitId permit = 0;
    Protocol protocol = Protocol::kResp2;
  };

  /// The tag of a request whose reply needs the detail, until clear().
  std::uint32_t tag_with(Form form, const Detail& detail) {
    details_.push_back(detail);
    return tag_of(form) | static_cast<std::uint32_t>(details_.size() - 1) << kFormBits;
  }
  /// Begins a new batch: forgets the details of the one before.
  void clear() { details_.clear(); }

  void write_decisions(std::span<const ReplySlot> slots, std::span<const Decision> decisions,
                       std::string& output) override;
  void write_unavailable(const ReplySlot& slot, std::string_view why, std::string& output) override;
  void write_together(const ReplySlot& slot, const Decision& whole, std::span<const Decision> parts,
                      std::string& output) override;
  void write_refused(const ReplySlot& slot, std::string_view why, std::string& output) override;

 private:
  static constexpr int kFormBits = 8;

  char* put_reply(char* to, std::uint32_t tag, const Decision& decision);
  char* put_other(char* to, std::uint32_t tag, const Decision& decision);
  char* put_count(char* to, const Detail& detail, const Decision& decision);
  char* put_gone(char* to, Form form, const Decision& decision);

  static Form form_of(std::uint32_t tag) {
    return static_cast<Form>(tag & ((1U << kFormBits) - 1));
  }
  const Detail& detail_of(std::uint32_t tag) const {
    assert(tag >> kFormBits < details_.size());
    return details_[tag >> kFormBits];
  }

  std::vector<Detail> details_;
  std::int64_t total_ = 0;  // That of a kTotal whose kCount has not come.
  // How many of the keys that DEL names have had a state so far.
  std::int64_t gone_ = 0;
  bool has_state_ = false;
  bool is_missing_one_ = false;
};

}  // namespace sluice::resp
