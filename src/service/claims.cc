#include "service/claims.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <numeric>
#include <utility>

#include "algorithms/limit_definition.h"
#include "core/together.h"

namespace sluice {
Claims::Claims(Answers answers, std::span<const Request> asked) : answers_(std::move(answers)) {
  const std::vector<ReplySlot>& slots = answers_.slots;
  assert(!slots.empty() && asked.size() + answers_.overridden.size() == slots.size());
  answer_.parts.assign(slots.size(), Decision{.source = Source::kUnavailable});
  units_.resize(slots.size());
  claims_.resize(slots.size());
  std::vector<std::size_t> open;
  bool is_denied = false;
  std::size_t overridden = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].is_answered) {
      answer_.parts[i] = answers_.overridden[overridden++];
      is_denied = is_denied || (!answer_.parts[i].allowed && !slots[i].is_dry_run);
      continue;
    }
    claims_[i] = asked[open.size()];
    claims_[i].key = keys_.emplace_back(claims_[i].key);
    units_[i] = claims_[i].cost;
    open.push_back(i);
  }
  if (is_denied) {
    for (const std::size_t i : open) claims_[i].cost = 0;
    mode_ = Batch::Mode::kEach;
  }
  begin_round(open);
}

void Claims::begin_round(const std::vector<std::size_t>& claims) {
  round_ = claims;
  requests_.clear();
  for (const std::size_t i : claims) requests_.push_back(claims_[i]);
  if (mode_ == Batch::Mode::kEach) return;
  const bool is_one = claims.size() == 1;
  const std::size_t parts = is_one ? requests_[0].limit->parts.size() : claims.size();
  room_.assign(parts, Decision{.source = Source::kUnavailable});
  for (std::size_t i = 0; i < claims.size(); ++i) {
    requests_[i].parts = is_one ? std::span(room_) : std::span(room_).subspan(i, 1);
  }
}

void Claims::take(std::span<const Decision> decisions, std::span<const Request> requests) {
  if (mode_ == Batch::Mode::kEach) return take_peeks(decisions);
  const Decision& whole = decisions[0];
  if (answers_.slots.size() == 1 || !answers_.is_mixed) return take_whole(whole, requests);
  bool is_denied = false;
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < round_.size(); ++i) {
    const Decision& own = requests.size() == 1 ? whole : requests[i].parts[0];
    answer_.parts[round_[i]] = own;
    if (own.allowed) others.push_back(round_[i]);
    is_denied = is_denied || (!own.allowed && !answers_.slots[round_[i]].is_dry_run);
  }
  if (whole.allowed || is_denied) return begin_round({});
  assert(others.size() < round_.size());  // A store denies the whole for one of the claims.
  begin_round(others);
}

// The store's answer to the only claim, or to all where none has an override or a dry run.
void Claims::take_whole(const Decision& whole, std::span<const Request> requests) {
  answer_.whole = whole;
  answer_.parts.clear();
  for (const Request& request : requests) {
    answer_.parts.insert(answer_.parts.end(), request.parts.begin(), request.parts.end());
  }
  const ReplySlot& first = answers_.slots[0];
  if (first.is_dry_run) {
    allow_dry_run(answer_.whole, first, units_[0]);
    for (Decision& part : answer_.parts) allow_dry_run(part, first, units_[0]);
  }
  is_over_ = true;
  begin_round({});
}

// The claims' decisions are derived from peeks. Their waits may be too long, never too short. What
// a bucket with nothing left would lend is not known: it is said to deny.
void Claims::take_peeks(std::span<const Decision> decisions) {
  constexpr std::chrono::nanoseconds kLeastWait = std::chrono::milliseconds(1);
  for (std::size_t i = 0; i < round_.size(); ++i) {
    const std::vector<AnyPart>& parts = claims_[round_[i]].limit->parts;
    const std::int64_t units = units_[round_[i]];
    Decision& own = answer_.parts[round_[i]] = decisions[i];
    if (own.source == Source::kPolicy) {
      // It has no numbers. OnFailure::kDeny is the one that says when to ask again.
      own.allowed = units == 0 || own.reset_after.count() == 0;
      if (!own.allowed) own.retry_after = own.reset_after;
      continue;
    }
    own.allowed =
        own.remaining >= units || (parts.size() == 1 && borrows(parts[0]) && own.remaining > 0);
    if (own.allowed) continue;
    const bool never_passes = units > own.limit && std::ranges::none_of(parts, borrows);
    own.retry_after = never_passes ? kNever : std::max(own.reset_after, kLeastWait);
  }
  begin_round({});
}

void Claims::fail(std::string_view why) {
  answers_.error = why;
  answer_.whole = {.source = Source::kUnavailable};
  is_over_ = true;
  begin_round({});
}

void Claims::refuse(std::string_view why) {
  fail(why);
  answer_.is_refused = true;
}

Answers Claims::finish() {
  assert(is_decided());
  if (!is_over_) combine();
  answers_.together = std::move(answer_);
  for (std::size_t i = 0; i < claims_.size(); ++i) {
    if (answers_.slots[i].is_answered) continue;
    answers_.note_denial(answers_.slots[i], claims_[i].key, answers_.own_decision(i));
  }
  return std::move(answers_);
}

// The answer to the whole comes from the claims that can deny, or from all if none can.
void Claims::combine() {
  std::vector<Decision>& parts = answer_.parts;
  const std::vector<ReplySlot>& slots = answers_.slots;
  bool would_deny = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (slots[i].is_dry_run) allow_dry_run(parts[i], slots[i], units_[i]);
    would_deny = would_deny || parts[i].would_deny;
  }
  std::vector<std::size_t> bound;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_free = slots[i].is_answered && parts[i].allowed;
    if (!slots[i].is_dry_run && !is_free) bound.push_back(i);
  }
  if (bound.empty()) {
    bound.resize(parts.size());
    std::iota(bound.begin(), bound.end(), std::size_t{0});
  }
  Together together;
  for (const std::size_t i : bound) together.add(parts[i]);
  Decision whole = together.decision();
  whole.binding = static_cast<std::uint8_t>(bound[whole.binding]);
  whole.would_deny = whole.allowed && would_deny;
  answer_.whole = whole;
}

}  // namespace sluice
