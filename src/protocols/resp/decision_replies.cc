#include "protocols/resp/decision_replies.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "core/arithmetic.h"
#include "service/permit_text.h"

namespace sluice::resp {
namespace {

// The longest reply has seven numbers, the first of which is 0 or 1.
constexpr std::size_t kMaxReplyBytes = 4 + 4 + 6 * (1 + kMaxIntegerBytes);

// Rounded up, so that a client that waits so long is not too early. -1 for kNever.
template <std::int64_t kUnitNs>
std::int64_t round_up(std::chrono::nanoseconds wait) {
  return wait == kNever ? -1 : ceil_divide(wait.count(), kUnitNs);
}

char* put(char* to, std::int64_t number) {
  *to++ = ':';
  return put_integer_line(to, number);
}

template <std::size_t kSize>
char* put_text(char* to, const char (&text)[kSize]) {
  std::memcpy(to, text, kSize - 1);
  return to + kSize - 1;
}

char* put_throttle(char* to, const Decision& decision) {
  to = put_text(to, "*5\r\n");
  to = put(to, decision.allowed ? 0 : 1);
  to = put(to, decision.limit);
  to = put(to, decision.remaining);
  to = decision.allowed ? put_text(to, ":-1\r\n")
                        : put(to, round_up<kSecondNs>(decision.retry_after));
  return put(to, round_up<kSecondNs>(decision.reset_after));
}

char* put_allowed(char* to, const Decision& decision) {
  to = put_text(to, "*5\r\n");
  to = put(to, decision.allowed ? 1 : 0);
  to = put(to, decision.limit);
  to = put(to, decision.remaining);
  to = put(to, round_up<kSecondNs>(decision.reset_after));
  return put(to, round_up<kSecondNs>(decision.retry_after));
}

// -1 for a key that an override makes unlimited.
std::int64_t units_of(std::int64_t units) {
  return units == kUnlimited ? -1 : units;
}

char* put_six(char* to, const Decision& decision) {
  to = put(to, decision.allowed ? 1 : 0);
  to = put(to, units_of(decision.limit));
  to = put(to, units_of(decision.remaining));
  to = put(to, round_up<kMillisecondNs>(decision.retry_after));
  to = put(to, round_up<kMillisecondNs>(decision.reset_after));
  return put(to, round_up<kMillisecondNs>(decision.delay));
}

char* put_permit(char* to, const DecisionReplies::Detail& detail, const Decision& decision) {
  to = put_text(to, "*3\r\n");
  to = put(to, decision.allowed ? 1 : 0);
  if (!decision.allowed) {
    to = detail.protocol == Protocol::kResp3 ? put_text(to, "_\r\n") : put_text(to, "$-1\r\n");
    return put(to, round_up<kMillisecondNs>(decision.retry_after));
  }
  to = put_text(to, "$17\r\n");
  const std::string text = permit_text(detail.permit, giver_of(decision));
  std::memcpy(to, text.data(), kPermitBytes);
  to = put_text(to + kPermitBytes, "\r\n");
  return put(to, detail.number);
}

}  // namespace

inline char* DecisionReplies::put_reply(char* to, std::uint32_t tag, const Decision& decision) {
  switch (form_of(tag)) {
    case Form::kThrottle:
      return put_throttle(to, decision);
    case Form::kCheck:
      return put_six(put_text(to, "*6\r\n"), decision);
    case Form::kDone:
      return put_text(to, "+OK\r\n");
    default:
      return put_other(to, tag, decision);
  }
}

char* DecisionReplies::put_other(char* to, std::uint32_t tag, const Decision& decision) {
  const Form form = form_of(tag);
  switch (form) {
    case Form::kAllowed:
      return put_allowed(to, decision);
    case Form::kTaken:
      return put(put_six(put_text(to, "*7\r\n"), decision), decision.taken);
    case Form::kPermit:
      return put_permit(to, detail_of(tag), decision);
    case Form::kHeld:
      return put(to, decision.allowed ? 1 : 0);
    case Form::kTotal:
      // A failure policy without local states knows no count.
      if (decision.source != Source::kPolicy) total_ = decision.limit - decision.remaining;
      return to;
    case Form::kCount:
      return put_count(to, detail_of(tag), decision);
    default:
      return put_gone(to, form, decision);
  }
}

// A take_up_to decision has the number of units that it took; the others took all or none. A policy
// that admits knows of no others. If nothing is left, more units than the limit may be taken.
char* DecisionReplies::put_count(char* to, const Detail& detail, const Decision& decision) {
  const std::int64_t total = std::exchange(total_, 0);
  const std::int64_t asked = detail.number != 0 ? detail.number : decision.taken;
  const std::int64_t taken = decision.allowed ? asked : 0;
  const bool is_by_policy = decision.allowed && decision.source == Source::kPolicy;
  std::int64_t units = is_by_policy ? taken : decision.limit - decision.remaining;
  if (!is_by_policy && taken == 0 && decision.remaining == 0) units = std::max(units, total);
  return put(put(put_text(to, "*2\r\n"), units), taken);
}

char* DecisionReplies::put_gone(char* to, Form form, const Decision& decision) {
  if (form == Form::kState) has_state_ = has_state_ || decision.reset_after.count() > 0;
  if (form != Form::kKeyGone && form != Form::kAllGone) return to;
  gone_ += std::exchange(has_state_, false) ? 1 : 0;
  if (form == Form::kKeyGone) return to;
  const std::int64_t gone = std::exchange(gone_, 0);
  if (!std::exchange(is_missing_one_, false)) return put(to, gone);
  return put_text(to, "-UNAVAILABLE the store did not answer for every key\r\n");
}

void DecisionReplies::write_decisions(std::span<const ReplySlot> slots,
                                      std::span<const Decision> decisions, std::string& output) {
  assert(slots.size() == decisions.size() && slots.size() <= DecisionBatch::kMaxRequests);
  // Room for the longest replies at once, so that writing each needs no checks.
  char replies[DecisionBatch::kMaxRequests * kMaxReplyBytes];
  char* to = replies;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    to = put_reply(to, slots[i].tag, decisions[i]);
  }
  output.append(replies, to);
}

void DecisionReplies::write_unavailable(const ReplySlot& slot, std::string_view why,
                                        std::string& output) {
  const Form form = form_of(slot.tag);
  if (form == Form::kState || form == Form::kForget || form == Form::kKeyGone) {
    is_missing_one_ = true;
    has_state_ = false;
    return;
  }
  if (form == Form::kTotal) return;
  total_ = 0;
  if (form == Form::kAllGone) {
    gone_ = 0;
    has_state_ = is_missing_one_ = false;
  }
  Writer(output, Protocol::kResp2).error("UNAVAILABLE " + std::string(why));
}

void DecisionReplies::write_together(const ReplySlot& /*slot*/, const Decision& whole,
                                     std::span<const Decision> parts, std::string& output) {
  Writer writer(output, Protocol::kResp2);
  writer.array(2 + parts.size());
  writer.integer(whole.binding);
  const ReplySlot six{.tag = tag_of(Form::kCheck)};
  write_decisions({&six, 1}, {&whole, 1}, output);
  for (const Decision& part : parts) write_decisions({&six, 1}, {&part, 1}, output);
}

void DecisionReplies::write_refused(const ReplySlot& /*slot*/, std::string_view why,
                                    std::string& output) {
  Writer(output, Protocol::kResp2).error("ERR " + std::string(why));
}

}  // namespace sluice::resp
