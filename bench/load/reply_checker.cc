#include "load/reply_checker.h"

#include <cstring>

namespace sluice::bench {
namespace {

constexpr std::string_view kPongLine = "+PONG\r\n";
constexpr std::string_view kHeadLine = "*5\r\n";
constexpr int kMostDigits = 18;

/// Compares `bytes` with `line`: 0 if they begin with it, 1 if they are incomplete, 2 if they
/// differ.
int compare_line(std::string_view bytes, std::string_view line) {
  if (bytes.starts_with(line)) return 0;
  return line.starts_with(bytes) ? 1 : 2;
}

struct Integer {
  std::int64_t value = 0;
  std::size_t bytes = 0;  ///< 0 where the line is cut off or wrong.
  bool wrong = false;
};

/// Parses ":<digits>\r\n" at the front.
Integer read_integer(std::string_view bytes) {
  constexpr Integer kCutOff{};
  constexpr Integer kWrong{.wrong = true};
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  if (at == end) return kCutOff;
  if (*at++ != ':') return kWrong;
  const bool negative = at != end && *at == '-';
  if (negative) ++at;
  std::int64_t value = 0;
  const char* const digits = at;
  for (; at != end && *at >= '0' && *at <= '9'; ++at) {
    if (at - digits == kMostDigits) return kWrong;
    value = value * 10 + (*at - '0');
  }
  if (at == end) return kCutOff;
  if (at == digits || *at++ != '\r') return kWrong;
  if (at == end) return kCutOff;
  if (*at++ != '\n') return kWrong;
  return {.value = negative ? -value : value, .bytes = static_cast<std::size_t>(at - bytes.data())};
}

}  // namespace

ReplyChecker::ReplyChecker(Reply reply, const LimitNumbers& limit)
    : reply_(reply), capacity_(limit.burst + 1) {
  // The span of a full bucket, whose intervals are rounded up to whole nanoseconds; one second
  // more, since the reply is rounded up.
  const double interval_s =
      static_cast<double>(limit.period_s) / static_cast<double>(limit.count) + 1e-9;
  longest_reset_s_ = static_cast<std::int64_t>(interval_s * static_cast<double>(capacity_)) + 1;
}

ReplyChecker::Progress ReplyChecker::check(std::string_view bytes) {
  Progress progress;
  while (progress.bytes < bytes.size()) {
    const std::string_view rest = bytes.substr(progress.bytes);
    if (known_bytes_ != 0 && rest.size() >= known_bytes_ &&
        std::memcmp(rest.data(), known_.data(), known_bytes_) == 0) {
      progress.bytes += known_bytes_;
      ++progress.replies;
      continue;
    }
    Five five;
    const Verdict verdict =
        reply_ == Reply::kPong ? read_pong(rest, &five) : read_five(rest, &five);
    if (verdict == Verdict::kCutOff) break;
    if (verdict == Verdict::kWrong) {
      progress.error = five.error;
      break;
    }
    remember(rest.substr(0, five.bytes));
    progress.bytes += five.bytes;
    ++progress.replies;
  }
  return progress;
}

ReplyChecker::Verdict ReplyChecker::read_pong(std::string_view bytes, Five* five) const {
  const int difference = compare_line(bytes, kPongLine);
  five->bytes = kPongLine.size();
  five->error = "the reply to PING is not +PONG";
  if (difference == 0) return Verdict::kRight;
  return difference == 1 ? Verdict::kCutOff : Verdict::kWrong;
}

ReplyChecker::Verdict ReplyChecker::read_five(std::string_view bytes, Five* five) const {
  five->error = "the reply is not five integers";
  const int difference = compare_line(bytes, kHeadLine);
  if (difference != 0) return difference == 1 ? Verdict::kCutOff : Verdict::kWrong;
  five->bytes = kHeadLine.size();
  for (std::int64_t& number : five->numbers) {
    const Integer integer = read_integer(bytes.substr(five->bytes));
    if (integer.wrong) return Verdict::kWrong;
    if (integer.bytes == 0) return Verdict::kCutOff;
    number = integer.value;
    five->bytes += integer.bytes;
  }
  five->error = judge(five->numbers);
  return five->error == nullptr ? Verdict::kRight : Verdict::kWrong;
}

const char* ReplyChecker::judge(const std::array<std::int64_t, 5>& numbers) const {
  const auto [limited, limit, remaining, retry_s, reset_s] = numbers;
  if (limited != 0 && limited != 1) return "limited is neither 0 nor 1";
  if (limit != capacity_) return "limit is not burst + 1";
  if (remaining < 0 || remaining >= limit) return "remaining is not from 0 to burst";
  if (limited == 0 && retry_s != -1) return "retry_after is not -1 though the request is allowed";
  if (limited == 1 && remaining != 0) return "remaining is not 0 though one unit is denied";
  if (limited == 1 && retry_s < 1) return "retry_after is below 1 though the request is denied";
  if (retry_s > reset_s) return "retry_after is above reset_after";
  if (reset_s < 1 || reset_s > longest_reset_s_) return "reset_after is out of range";
  return nullptr;
}

void ReplyChecker::remember(std::string_view reply) {
  if (reply.size() > known_.size()) return;
  std::memcpy(known_.data(), reply.data(), reply.size());
  known_bytes_ = reply.size();
}

}  // namespace sluice::bench
