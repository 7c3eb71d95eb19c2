#include "protocols/http/replies.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <chrono>
#include <variant>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/number_text.h"
#include "core/store.h"
#include "service/permit_text.h"

namespace sluice::http {
namespace {

/// The members of a decision. They are put together in an array with room for all of them, which
/// takes a fifth of the time of appending each piece to a string.
class DecisionText {
 public:
  void add(std::string_view text) {
    assert(text.size() <= kMostBytes - size_);
    text.copy(text_.data() + size_, text.size());
    size_ += text.size();
  }
  void add_units(std::int64_t units) {
    if (units == kUnlimited) return add("null");
    add_number(units);
  }
  void add_wait(std::chrono::nanoseconds wait) {
    if (wait == kNever) return add("null");
    add_number(ceil_divide(wait.count(), kMillisecondNs));
  }
  std::string_view text() const { return {text_.data(), size_}; }

 private:
  static constexpr std::size_t kMostBytes = 256;

  void add_number(std::int64_t number) {
    const auto end = std::to_chars(text_.data() + size_, text_.data() + kMostBytes, number).ptr;
    size_ = static_cast<std::size_t>(end - text_.data());
  }

  std::array<char, kMostBytes> text_;
  std::size_t size_ = 0;
};

void append_decision(std::string& output, const Decision& decision) {
  output += '{';
  append_decision_members(output, decision);
  output += '}';
}

// Appends the names of the limits that deny, as they are in the headers.
void append_violated(std::string& output, std::span<const std::pair<Limit, Decision>> answers) {
  output.append(R"(,"violated-policies":[)");
  bool is_first = true;
  for (const auto& [limit, decision] : answers) {
    if (decision.allowed) continue;
    if (!std::exchange(is_first, false)) output += ',';
    const std::vector<Limit> parts = limit.parts();
    append_json_string(output,
                       parts[std::min<std::size_t>(decision.binding, parts.size() - 1)].space());
  }
  output += ']';
}

}  // namespace

void append_decision_members(std::string& output, const Decision& decision) {
  DecisionText text;
  text.add(decision.allowed ? R"("allowed":true)" : R"("allowed":false)");
  if (decision.would_deny) text.add(R"(,"would_deny":true)");
  text.add(R"(,"limit":)");
  text.add_units(decision.limit);
  text.add(R"(,"remaining":)");
  text.add_units(decision.remaining);
  text.add(R"(,"retry_after_ms":)");
  text.add_wait(decision.retry_after);
  text.add(R"(,"reset_after_ms":)");
  text.add_wait(decision.reset_after);
  text.add(R"(,"delay_ms":)");
  text.add_wait(decision.delay);
  text.add(R"(,"source":")");
  text.add(to_string(decision.source));
  text.add("\"");
  output.append(text.text());
}

void DecisionReplies::write_decisions(std::span<const ReplySlot> slots,
                                      std::span<const Decision> decisions, std::string& output) {
  assert(slots.size() == decisions.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    write(details_[slots[i].tag], decisions[i], {}, output);
  }
}

void DecisionReplies::write_together(const ReplySlot& slot, const Decision& whole,
                                     std::span<const Decision> parts, std::string& output) {
  write(details_[slot.tag], whole, parts, output);
}

void DecisionReplies::write_unavailable(const ReplySlot& slot, std::string_view why,
                                        std::string& output) {
  write_unavailable_for(details_[slot.tag], why, output);
}

void DecisionReplies::write_unavailable_for(ReplyDetail& detail, std::string_view why,
                                            std::string& output) {
  if (detail.commit) detail.commit->put_back();
  // Some proxies pass the answer of /auth on to their clients, who need not know where the store
  // is.
  const bool is_for_strangers = detail.form == Form::kAuth;
  const std::string text(is_for_strangers ? "the store did not answer" : why);
  write_problem_for(detail, {.status = 503, .detail = text, .retry_after_s = 1}, kReducedCapacity,
                    output);
}

void DecisionReplies::write_refused(const ReplySlot& slot, std::string_view why,
                                    std::string& output) {
  write_problem_for(details_[slot.tag], {.detail = std::string(why)}, {}, output);
}

void DecisionReplies::write_problem_for(const ReplyDetail& detail, const Problem& problem,
                                        const ProblemType& type, std::string& output) {
  if (detail.form == Form::kResult) {
    append_problem(output, problem, type);
    output += ',';
  } else {
    write_problem(output, detail.options, date_.at(store_.now()), problem, type);
  }
}

// Notes the answers for the headers: those of the requests, or, if there is one request, of the
// parts of its limit, as far as they are known: of a remembered denial they are not.
void DecisionReplies::note_answers(const ReplyDetail& detail, const Decision& whole,
                                   std::span<const Decision> parts) {
  answers_.clear();
  if (detail.limits.size() > 1) {
    for (std::size_t i = 0; i < detail.limits.size(); ++i) {
      answers_.emplace_back(detail.limits[i]->limit, parts[i]);
    }
  } else if (parts.size() > 1 && whole.source != Source::kCache) {
    for (std::size_t i = 0; const Limit& part : detail.limits[0]->limit.parts()) {
      answers_.emplace_back(part, parts[i++]);
    }
  } else {
    answers_.emplace_back(detail.limits[0]->limit, whole);
  }
}

// The headers that tell the noted answers.
std::vector<HttpHeader> DecisionReplies::limit_headers(HeaderStyle style,
                                                       const Decision& whole) const {
  const std::chrono::system_clock::time_point now{
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(store_.now()))};
  // The decision of an override has no numbers for the headers.
  const auto is_override = [](const auto& answer) {
    return answer.second.source == Source::kOverride;
  };
  if (std::ranges::none_of(answers_, is_override)) return http_headers(answers_, style, now);
  Answers told;
  std::ranges::remove_copy_if(answers_, std::back_inserter(told), is_override);
  std::vector<HttpHeader> headers = http_headers(told, style, now);
  const auto denies = [](const auto& answer) { return !answer.second.allowed; };
  if (!whole.allowed && std::ranges::none_of(told, denies)) {
    headers.push_back({"Cache-Control", "no-store"});
  }
  // What an override denies is never admitted, however long the others make the client wait.
  if (whole.retry_after == kNever) {
    std::erase_if(headers, [](const auto& header) { return header.name == "Retry-After"; });
  }
  return headers;
}

void DecisionReplies::write(ReplyDetail& detail, const Decision& whole,
                            std::span<const Decision> parts, std::string& output) {
  if (detail.form == Form::kResult) {
    append_decision(output, whole);
    output += ',';
    return;
  }
  const std::string_view date = date_.at(store_.now());
  switch (detail.form) {
    case Form::kDone:
      return write_response(output, detail.options, date, {.status = 204});
    case Form::kCommit:
      // The failure policy has answered.
      if (whole.source != Source::kPolicy || detail.reserved.giver == Source::kPolicy) break;
      return write_unavailable_for(
          detail, "the store has not confirmed that it has settled the reservation", output);
    case Form::kHeld:
      if (whole.allowed) break;
      return write_problem(output, detail.options, date,
                           {.status = 410,
                            .detail = "the permit is not held: its lease has ended, "
                                      "or it was released"});
    default:
      break;
  }
  const bool tells_limits =
      detail.form != Form::kDecision && detail.form != Form::kCommit && detail.form != Form::kHeld;
  std::vector<HttpHeader> headers;
  if (tells_limits) {
    note_answers(detail, whole, parts);
    headers = limit_headers(detail.style, whole);
  }
  const bool is_denied = tells_limits && !whole.allowed;
  if (detail.form == Form::kAuth) {
    const bool has_body = is_denied && detail.has_problem;
    if (has_body) write_denial_body(detail, whole);
    return write_response(output, detail.options, date,
                          {.status = whole.allowed ? detail.allow_status : detail.deny_status,
                           .content_type = has_body ? kProblemJson : std::string_view(),
                           .body = has_body ? std::string_view(body_) : std::string_view(),
                           .headers = headers});
  }
  write_body(detail, whole, parts);
  write_response(
      output, detail.options, date,
      {.status = is_denied ? 429 : 200, .content_type = kJson, .body = body_, .headers = headers});
}

void DecisionReplies::write_body(ReplyDetail& detail, const Decision& whole,
                                 std::span<const Decision> parts) {
  body_.assign("{");
  const bool has_permit =
      detail.form == Form::kHeld || (detail.form == Form::kPermit && whole.allowed);
  if (has_permit) {
    const Source giver = detail.form == Form::kHeld ? detail.giver : giver_of(whole);
    body_.append(R"("permit":")").append(permit_text(detail.permit, giver));
    body_.append(R"(","lease_ms":)");
    append_number(body_, lease_ms(detail.limits[0]->limit.definition()));
    body_ += '}';
    return;
  }
  append_decision_members(body_, whole);
  if (detail.form == Form::kTaken) {
    body_.append(R"(,"taken":)");
    append_number(body_, whole.taken);
  } else if (detail.form == Form::kReservation && whole.allowed) {
    detail.reserved.giver = giver_of(whole);
    if (whole.source == Source::kFull) detail.reserved.cost = 0;  // Nothing was recorded.
    detail.reserved.most_at_once = whole.limit;
    detail.reserved.counted_for = CountedFor(whole, parts);
    const std::string name = reservations_.hold(*std::exchange(detail.place, std::nullopt),
                                                std::move(detail.reserved), store_.now());
    body_.append(R"(,"reservation":")").append(name).append(R"(","expires_ms":)");
    append_number(body_, Reservations::kExpiresNs / kMillisecondNs);
  } else if (detail.form == Form::kAll) {
    body_.append(R"(,"parts":[)");
    for (const Decision& part : parts) {
      append_decision(body_, part);
      body_ += ',';
    }
    if (!parts.empty()) body_.pop_back();
    body_.append(R"(],"binding":)");
    append_number(body_, whole.binding);
  }
  body_ += '}';
}

void DecisionReplies::write_denial_body(const ReplyDetail& detail, const Decision& whole) {
  Problem problem{.status = detail.deny_status};
  problem.detail = whole.source == Source::kOverride ? "the key is denied"
                   : whole.retry_after == kNever
                       ? "the request asks for more than the limit ever admits"
                       : "too many requests: try again when Retry-After has passed";
  append_violated(problem.members, answers_);
  body_.clear();
  append_problem(body_, problem, kQuotaExceeded);
}

}  // namespace sluice::http
