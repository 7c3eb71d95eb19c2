#include "sluice/decision.h"

#include <ostream>

#include "core/limit_syntax.h"

namespace sluice {
namespace {

std::string in_words(std::chrono::nanoseconds wait) {
  return wait == kNever ? "never" : format_duration(wait.count());
}

}  // namespace

std::string_view to_string(Source source) {
  switch (source) {
    case Source::kStore:
      return "store";
    case Source::kFull:
      return "full";
    case Source::kCache:
      return "cache";
    case Source::kLocal:
      return "local";
    case Source::kPolicy:
      return "policy";
    case Source::kOverride:
      return "override";
    case Source::kUnavailable:
      break;
  }
  return "unavailable";
}

std::string_view to_string(Ended ended) {
  switch (ended) {
    case Ended::kTimedOut:
      return "timed out";
    case Ended::kStopped:
      return "stopped";
    case Ended::kAnswered:
      break;
  }
  return "answered";
}

std::string to_string(const Decision& decision) {
  std::string text = decision.allowed ? "allowed" : "denied";
  if (decision.ended != Ended::kAnswered) text += ", " + std::string(to_string(decision.ended));
  if (decision.delay.count() > 0) text += " after " + in_words(decision.delay);
  text +=
      ": " + std::to_string(decision.remaining) + " of " + std::to_string(decision.limit) + " left";
  if (decision.binding > 0) text += " by part " + std::to_string(decision.binding);
  if (decision.taken > 0) text += ", " + std::to_string(decision.taken) + " taken";
  if (decision.retry_after == kNever) {
    text += ", retry never";
  } else if (decision.retry_after.count() > 0) {
    text += ", retry after " + in_words(decision.retry_after);
  }
  text += ", reset after " + in_words(decision.reset_after);
  if (decision.source != Source::kStore) {
    text += " (" + std::string(to_string(decision.source)) + ")";
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const Decision& decision) {
  return out << to_string(decision);
}

}  // namespace sluice
