#include "service/answers.h"

#include <algorithm>
#include <cassert>

namespace sluice {
namespace {

constexpr std::string_view kNotKnown =
    "the store has not confirmed the change: it may or may not have changed the key";

// Whether the decision can be sent to the client. A take may be decided by the local states or the
// policy. For another operation such a reply would say that the store had changed the key.
bool is_final(const ReplySlot& slot, Source source) {
  if (source == Source::kStore || source == Source::kOverride) return true;
  if (source == Source::kUnavailable) return false;
  return slot.may_be_local || (source != Source::kLocal && source != Source::kPolicy);
}

}  // namespace

void Answers::write(ReplyWriter& writer, OutcomeCounters& counters, std::string& output) const {
  if (duration_ns) counters.add_duration(*duration_ns, slots);
  for (const Denial& denial : denials) counters.denied.add(denial.limit, denial.key);
  if (together) return write_together(writer, counters, output);
  std::size_t others_written = 0;
  const auto write_others = [&](std::size_t end) {
    output.append(other_replies, others_written, end - others_written);
    others_written = end;
  };
  for (std::size_t begin = 0; begin < slots.size();) {
    write_others(slots[begin].others_before);
    const std::size_t end = row_from(begin);
    if (end == begin) {
      const bool undecided = decisions[begin].source == Source::kUnavailable;
      writer.write_unavailable(slots[begin], undecided ? error : kNotKnown, output);
      ++begin;
      continue;
    }
    writer.write_decisions(std::span(slots).subspan(begin, end - begin),
                           std::span(decisions).subspan(begin, end - begin), output);
    begin = end;
  }
  write_others(other_replies.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].is_counted) counters.add(slots[i].limit, decisions[i]);
  }
}

// The end of the row of decisions from `begin` on that are given to the writer together: they can
// be sent, and no other reply is between them. `begin` if its own decision cannot be sent.
std::size_t Answers::row_from(std::size_t begin) const {
  std::size_t end = begin;
  while (end < slots.size() && slots[end].others_before == slots[begin].others_before &&
         is_final(slots[end], decisions[end].source)) {
    ++end;
  }
  return end;
}

void Answers::note_denial(const ReplySlot& slot, std::string_view key, const Decision& decision) {
  const bool is_denied = !decision.allowed && decision.source != Source::kUnavailable;
  if (!is_denied || !slot.is_counted || slot.is_dry_run) return;
  denials.push_back({slot.limit, std::string(key.substr(0, TopKeys::kMaxKeyBytes))});
}

const Decision& Answers::own_decision(std::size_t slot) const {
  const Decision& whole = together->whole;
  const bool has_parts = slots.size() > 1 && is_final(slots[0], whole.source);
  return has_parts ? together->parts[slot] : whole;
}

void Answers::settle(std::span<const Request> requests) {
  std::size_t asked = 0;
  for (const ReplySlot& slot : slots) {
    if (slot.is_answered) continue;
    const Decision& decision = decisions[asked];
    if (!decision.allowed) note_denial(slot, requests[asked].key, decision);
    ++asked;
  }
  if (!is_mixed) return;
  // From the last to the first, so that no decision is overwritten before it is moved.
  std::size_t answered = overridden.size();
  decisions.resize(std::max(decisions.size(), slots.size()));
  for (std::size_t i = slots.size(); i-- > 0;) {
    decisions[i] = slots[i].is_answered ? overridden[--answered] : decisions[--asked];
  }
  std::size_t dry_run = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].is_dry_run) allow_dry_run(decisions[i], slots[i], dry_run_units[dry_run++]);
  }
}

void Answers::write_together(ReplyWriter& writer, OutcomeCounters& counters,
                             std::string& output) const {
  assert(together && !slots.empty() && slots[0].others_before == 0);
  const auto& [whole, parts, is_refused] = *together;
  if (is_refused) {
    writer.write_refused(slots[0], error, output);
    output += other_replies;
    return;
  }
  if (is_final(slots[0], whole.source)) {
    writer.write_together(slots[0], whole, parts, output);
  } else {
    writer.write_unavailable(slots[0], error, output);
  }
  output += other_replies;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].is_counted) continue;
    const Decision& own = own_decision(i);
    // What another limit denies, this one has not admitted.
    if (!whole.allowed && outcome_of(own) == Outcome::kAllowed) continue;
    counters.add(slots[i].limit, own);
  }
}

void allow_dry_run(Decision& decision, const ReplySlot& slot, std::int64_t units) {
  if (decision.source == Source::kUnavailable) return;
  const bool has_all = !slot.is_take_up_to || decision.taken == units;
  decision.would_deny = slot.is_counted && (!decision.allowed || !has_all);
  decision.allowed = true;
  decision.retry_after = decision.delay = std::chrono::nanoseconds(0);
  if (slot.is_take_up_to) decision.taken = units;
}

}  // namespace sluice
