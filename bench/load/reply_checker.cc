#include "load/reply_checker.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <tuple>

namespace sluice::bench {
namespace {

constexpr std::string_view kPongLine = "+PONG\r\n";
constexpr std::string_view kFiveLine = "*5\r\n";
constexpr std::string_view kSixLine = "*6\r\n";
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

// The span of a full bucket, whose intervals are rounded up to whole nanoseconds; one second more,
// since the reply is rounded up.
double longest_reset_s(const LimitNumbers& limit) {
  const double interval_s =
      static_cast<double>(limit.period_s) / static_cast<double>(limit.count) + 1e-9;
  return interval_s * static_cast<double>(limit.burst + 1) + 1;
}

}  // namespace

ReplyChecker::ReplyChecker(const LoadOptions& options) : reply_(options.reply) {
  LimitNumbers first = options.limit;
  LimitNumbers other = options.other_limit.value_or(first);
  if (options.command == Command::kNewLimit) {
    first.burst = kFirstNew - 1;
    other.burst = 10 * kFirstNew - 2;
  }
  std::tie(least_capacity_, most_capacity_) = std::minmax({first.burst + 1, other.burst + 1});
  longest_reset_s_ = std::max(longest_reset_s(first), longest_reset_s(other));
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
    Read read;
    const Verdict verdict =
        reply_ == Reply::kPong ? read_pong(rest, &read) : read_numbers(rest, &read);
    if (verdict == Verdict::kCutOff) break;
    if (verdict == Verdict::kWrong) {
      progress.error = read.error;
      break;
    }
    remember(rest.substr(0, read.bytes));
    progress.bytes += read.bytes;
    ++progress.replies;
  }
  return progress;
}

ReplyChecker::Verdict ReplyChecker::read_pong(std::string_view bytes, Read* read) const {
  const int difference = compare_line(bytes, kPongLine);
  read->bytes = kPongLine.size();
  read->error = "the reply to PING is not +PONG";
  if (difference == 0) return Verdict::kRight;
  return difference == 1 ? Verdict::kCutOff : Verdict::kWrong;
}

ReplyChecker::Verdict ReplyChecker::read_numbers(std::string_view bytes, Read* read) const {
  const bool is_five = reply_ == Reply::kFive;
  const std::string_view head = is_five ? kFiveLine : kSixLine;
  read->error = is_five ? "the reply is not five integers" : "the reply is not six integers";
  const int difference = compare_line(bytes, head);
  if (difference != 0) return difference == 1 ? Verdict::kCutOff : Verdict::kWrong;
  read->bytes = head.size();
  for (std::int64_t& number : std::span(read->numbers).first(is_five ? 5 : 6)) {
    const Integer integer = read_integer(bytes.substr(read->bytes));
    if (integer.wrong) return Verdict::kWrong;
    if (integer.bytes == 0) return Verdict::kCutOff;
    number = integer.value;
    read->bytes += integer.bytes;
  }
  const auto [first, limit, remaining, retry, reset, delay] = read->numbers;
  if (!is_five && delay != 0) {
    read->error = "delay is not 0 though the limit is a token bucket";
    return Verdict::kWrong;
  }
  // CL.THROTTLE says whether it is limited, and seconds; SLUICE.CHECK whether it is allowed, and
  // milliseconds.
  read->error = judge({.allowed = is_five ? 1 - first : first,
                       .limit = limit,
                       .remaining = remaining,
                       .retry_after = retry,
                       .reset_after = reset,
                       .no_retry = is_five ? -1 : 0,
                       .units_a_second = is_five ? 1 : 1000});
  return read->error == nullptr ? Verdict::kRight : Verdict::kWrong;
}

const char* ReplyChecker::judge(const Answer& a) const {
  if (a.allowed != 0 && a.allowed != 1) return "the first number is neither 0 nor 1";
  if (a.limit < least_capacity_ || a.limit > most_capacity_) return "limit is not burst + 1";
  if (a.remaining < 0 || a.remaining >= a.limit) return "remaining is not from 0 to burst";
  if (a.allowed == 1 && a.retry_after != a.no_retry) {
    return "there is a retry_after though the request is allowed";
  }
  if (a.allowed == 0 && a.remaining != 0) return "remaining is not 0 though one unit is denied";
  if (a.allowed == 0 && a.retry_after < 1) {
    return "retry_after is below 1 though the request is denied";
  }
  if (a.retry_after > a.reset_after) return "retry_after is above reset_after";
  const double longest = longest_reset_s_ * static_cast<double>(a.units_a_second);
  if (a.reset_after < 1 || static_cast<double>(a.reset_after) > longest) {
    return "reset_after is out of range";
  }
  return nullptr;
}

void ReplyChecker::remember(std::string_view reply) {
  if (reply.size() > known_.size()) return;
  std::memcpy(known_.data(), reply.data(), reply.size());
  known_bytes_ = reply.size();
}

}  // namespace sluice::bench
