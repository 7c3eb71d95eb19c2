#include "protocols/resp/decision_replies.h"

#include <cstring>

#include "core/arithmetic.h"
#include "protocols/resp/writer.h"

namespace sluice::resp {
namespace {

constexpr std::size_t kMaxReplyBytes = 4 + 6 * (1 + kMaxIntegerBytes);

// Rounded up, so that no client is told to come back a moment too early; kNever stays -1.
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
  to = put(to, decision.allowed ? -1 : round_up<kSecondNs>(decision.retry_after));
  return put(to, round_up<kSecondNs>(decision.reset_after));
}

char* put_check(char* to, const Decision& decision) {
  to = put_text(to, "*6\r\n");
  to = put(to, decision.allowed ? 1 : 0);
  to = put(to, decision.limit);
  to = put(to, decision.remaining);
  to = put(to, round_up<kMillisecondNs>(decision.retry_after));
  to = put(to, round_up<kMillisecondNs>(decision.reset_after));
  return put(to, round_up<kMillisecondNs>(decision.delay));
}

char* put_reply(char* to, Form form, const Decision& decision) {
  switch (form) {
    case Form::kThrottle:
      return put_throttle(to, decision);
    case Form::kCheck:
      return put_check(to, decision);
    case Form::kDone:
      break;
  }
  return put_text(to, "+OK\r\n");
}

}  // namespace

void DecisionReplies::write_decisions(std::span<const ReplySlot> slots,
                                      std::span<const Decision> decisions, std::string& output) {
  // Room for the longest replies at once, so that writing each needs no checks.
  const std::size_t begin = output.size();
  output.resize(begin + decisions.size() * kMaxReplyBytes);
  char* to = output.data() + begin;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    to = put_reply(to, static_cast<Form>(slots[i].tag), decisions[i]);
  }
  output.resize(static_cast<std::size_t>(to - output.data()));
}

void DecisionReplies::write_unavailable(const ReplySlot& /*slot*/, std::string_view why,
                                        std::string& output) {
  Writer(output, Protocol::kResp2).error("UNAVAILABLE " + std::string(why));
}

}  // namespace sluice::resp
