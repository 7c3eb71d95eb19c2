// The local states against a naive model of what the store told: random limits, requests of this
// and other processes, and losses of the store at random instants.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "testing/fallback_fixture.h"

namespace sluice {
namespace {

/// One limit of an `&`: `count` units per `window` nanoseconds.
struct PartLimit {
  std::string name;
  std::int64_t count;
  std::int64_t window;

  bool is_bucket() const { return name.ends_with("_bucket"); }
  std::string expression() const {
    const std::string numbers = std::to_string(count) + '/' + std::to_string(window) + "ns";
    if (name == "anchored") return "fixed_window " + numbers + " anchor=first";
    if (name == "leaky_bucket") return name + ' ' + numbers + " queue=" + std::to_string(count - 1);
    return name + ' ' + numbers;
  }
  std::int64_t interval() const { return window / count; }
  bool slides() const { return name == "sliding_log" || name == "sliding_window"; }
};

struct Admission {
  Instant at = 0;
  std::int64_t units = 0;
};

/// What is known of one part: the store's last answer, and what was admitted here since.
struct KnownPart {
  PartLimit limit;
  bool is_told = false;
  Instant at = 0;
  Instant reset_at = 0;
  std::int64_t remaining = 0;
  std::int64_t uncharged = 0;   // Admitted here, not charged to the store then, and still counting.
  Instant uncharged_until = 0;  // Until then, some part counts some of them.
  std::int64_t admitted = 0;    // Since then.

  // Until when no more than what remained may be admitted.
  Instant end() const {
    if (limit.is_bucket()) return kEndOfTime;
    if (limit.name == "anchored") return reset_at;
    if (limit.slides()) return at + limit.window;
    return (at / limit.window + 1) * limit.window;
  }

  // When a bucket is full that only these units empty.
  Instant full_at(const std::vector<Admission>& admissions) const {
    Instant full = 0;
    for (const Admission& one : admissions) {
      full = std::max(full, one.at) + one.units * limit.interval();
    }
    return full;
  }

  // A lower bound of the units that still count at `at`.
  std::int64_t counting(const std::vector<Admission>& admissions) const {
    if (limit.name == "anchored") return 0;
    if (limit.is_bucket()) {
      return std::max<std::int64_t>(0, (full_at(admissions) - at) / limit.interval());
    }
    const Instant from = limit.slides() ? at - limit.window + 1 : end() - limit.window;
    std::int64_t units = 0;
    for (const Admission& one : admissions) units += one.at >= from ? one.units : 0;
    return units;
  }

  // A lower bound of the instant when none of the units counts.
  Instant counting_until(const std::vector<Admission>& admissions) const {
    if (limit.name == "anchored" || admissions.empty()) return 0;
    if (limit.is_bucket()) return full_at(admissions);
    const Instant last = admissions.back().at;
    return limit.slides() ? last + limit.window : (last / limit.window + 1) * limit.window;
  }

  // The most that may have been admitted here by `now`, where each process has 1/share.
  bool is_within_bounds(Instant now, std::int64_t share) const {
    if (!is_told || now >= end()) return true;
    const std::int64_t refilled = limit.is_bucket() ? (now - at) / limit.interval() : 0;
    const std::int64_t less = now < uncharged_until ? uncharged * share : 0;
    return admitted * share <= std::max<std::int64_t>(0, remaining - less) + refilled;
  }
};

class FallbackModelTest : public FallbackFixture {
 protected:
  static PartLimit arbitrary_part() {
    return {.name = *rc::gen::element<std::string>("token_bucket", "leaky_bucket", "fixed_window",
                                                   "anchored", "sliding_log", "sliding_window",
                                                   "sliding_counter"),
            .count = *rc::gen::element(10, 20),
            .window = *rc::gen::element(1'000, 5'000)};
  }

  void begin(std::int64_t share) {
    share_ = share;
    std::string expression;
    for (int i = *rc::gen::element(1, 1, 2, 3); i > 0; --i) {
      parts_.push_back({.limit = arbitrary_part()});
      expression += (expression.empty() ? "" : " & ") + parts_.back().limit.expression();
    }
    RC_LOG(expression + ", 1/" + std::to_string(share) + '\n');
    inner_->loses = [this](const Request& asked) {
      return is_lost_ || (loses_charges_ && asked.operation == Operation::kCharge);
    };
    wrap({.local_share = share}, expression);
  }

  // What remains in the store, of each part.
  std::vector<Decision> peek_at_store() {
    std::vector<Decision> parts(parts_.size());
    const bool was_lost = std::exchange(is_lost_, false);
    const auto space = inner_->open_space(limit_->definition());
    Request asked = request({.cost = 0});
    asked.space = space.get();
    asked.parts = parts;
    Decision whole;
    inner_->decide({&asked, 1}, now_, {&whole, 1});
    is_lost_ = was_lost;
    return parts;
  }

  void told() {
    const std::vector<Decision> store = peek_at_store();
    Instant until = 0;
    std::int64_t most = kMaxInt64;  // Of an `&`, what is kept to be charged where that is refused.
    for (const KnownPart& part : parts_) {
      until = std::max(until, part.counting_until(uncharged_));
      if (parts_.size() > 1 && part.limit.is_bucket()) most = std::min(most, part.limit.count);
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      KnownPart& part = parts_[i];
      part = {.limit = part.limit,
              .is_told = true,
              .at = now_,
              .reset_at = now_ + store[i].reset_after.count(),
              .remaining = store[i].remaining};
      part.uncharged = std::min(most, part.counting(uncharged_));
      part.uncharged_until = until;
    }
  }

  void admitted_here(std::int64_t units) {
    for (KnownPart& part : parts_) part.admitted += units;
    if (units > 0) return uncharged_.push_back({now_, units});
    for (; units < 0 && !uncharged_.empty(); uncharged_.pop_back()) {
      units += uncharged_.back().units;
      if (units > 0) {
        uncharged_.back().units = units;
        break;
      }
    }
  }

  void ask_here() {
    Ask ask{.cost = *rc::gen::inRange(0, 6),
            .operation = *rc::gen::weightedElement<Operation>({{12, Operation::kTake},
                                                               {4, Operation::kTakeUpTo},
                                                               {2, Operation::kCharge},
                                                               {2, Operation::kRefund},
                                                               {1, Operation::kBlock},
                                                               {1, Operation::kReset}})};
    ask.duration_ns = *rc::gen::inRange(1, 300);
    if (ask.operation == Operation::kRefund && !uncharged_.empty()) ask.giver = Source::kLocal;
    const std::uint64_t charged_before = store_->counters().charged_back;
    const Decision answer = decide(ask, now_);
    RC_LOG(std::to_string(now_ - kStart) + ": operation " +
           std::to_string(static_cast<int>(ask.operation)) + ", cost " + std::to_string(ask.cost) +
           ", " + to_string(answer) + '\n');
    if (answer.source == Source::kLocal) return answered_here(ask, answer);
    if (store_->counters().charged_back != charged_before) {
      for (const KnownPart& part : parts_) charged(part);
      uncharged_.clear();
    }
    if (ask.operation == Operation::kReset) uncharged_.clear();
    if (ask.operation != Operation::kBlock) told();
  }

  void answered_here(const Ask& ask, const Decision& answer) {
    const bool takes_units = ask.operation == Operation::kTake || answer.taken > 0;
    if (ask.operation == Operation::kReset) {
      for (KnownPart& part : parts_) part.is_told = false;
      uncharged_.clear();
    } else if (ask.operation == Operation::kRefund) {
      admitted_here(-ask.cost);
    } else if (ask.operation == Operation::kCharge || (takes_units && answer.allowed)) {
      admitted_here(ask.operation == Operation::kTakeUpTo ? answer.taken : ask.cost);
      if (!takes_units || ask.cost == 0) return;
      for (const KnownPart& part : parts_) RC_ASSERT(part.is_within_bounds(now_, share_));
    }
  }

  // The store counts now what was admitted here.
  void charged(const KnownPart& part) {
    if (parts_.size() > 1) return;  // Of an `&`, no more than the smallest bucket holds.
    KnownPart then = part;
    then.at = now_;
    const std::int64_t least = then.counting(uncharged_);
    RC_ASSERT(peek_at_store()[0].remaining <= std::max<std::int64_t>(0, part.limit.count - least));
  }

  void ask_elsewhere() {
    const bool was_lost = std::exchange(is_lost_, false);
    const bool lost_charges = std::exchange(loses_charges_, false);
    RC_LOG(std::to_string(now_ - kStart) + ": elsewhere\n");
    decide_elsewhere({.cost = *rc::gen::inRange(0, 6),
                      .operation = *rc::gen::weightedElement<Operation>({{6, Operation::kTake},
                                                                         {2, Operation::kCharge},
                                                                         {1, Operation::kRefund},
                                                                         {1, Operation::kReset}})},
                     now_);
    is_lost_ = was_lost;
    loses_charges_ = lost_charges;
  }

  Instant now_ = kStart;
  bool is_lost_ = false;
  bool loses_charges_ = false;
  std::int64_t share_ = 1;
  std::vector<KnownPart> parts_;
  std::vector<Admission> uncharged_;
};

RC_GTEST_FIXTURE_PROP(FallbackModelTest, AdmitsNoMoreThanTheStoreTold, ()) {
  begin(*rc::gen::element(1, 1, 1, 2, 3));
  loses_charges_ = *rc::gen::element(false, false, true);
  for (int i = *rc::gen::inRange(1, 120); i > 0; --i) {
    now_ += *rc::gen::element(0, 1, 20, 100, 400, *rc::gen::inRange(0, 3'000));
    if (*rc::gen::inRange(0, 8) == 0) is_lost_ = !is_lost_;
    if (*rc::gen::inRange(0, 3) == 0) {
      ask_elsewhere();
    } else {
      ask_here();
    }
  }
}

}  // namespace
}  // namespace sluice
