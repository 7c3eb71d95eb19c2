#include "fallback/last_answers.h"

#include <algorithm>
#include <cassert>
#include <mutex>
#include <utility>

#include "core/block.h"
#include "core/prefetch.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {

namespace {

std::uint32_t numbers_hash(const LimitDefinition& limit) {
  const std::string& expression = limit.expression;
  return static_cast<std::uint32_t>(XXH3_64bits(expression.data(), expression.size()));
}

// Whether some part never admits so many units: then the wait has no end.
bool is_above_a_part(const Request& request) {
  return request.operation == Operation::kTake &&
         std::ranges::any_of(request.limit->parts, [&](const AnyPart& part) {
           return request.cost > numbers_of(part).quota && !borrows(part);
         });
}

// Whether its denial is one of a take: take_up_to is denied where a single unit is, unless that
// could be borrowed.
bool is_like_a_take(const Request& request) {
  return request.operation == Operation::kTake ||
         (request.operation == Operation::kTakeUpTo &&
          std::ranges::none_of(request.limit->parts, borrows));
}

// The same number for all patiences between which the limit makes no difference: windows and logs
// reserve nothing, and without a patience only a leaky bucket has one of its own.
std::int64_t patience_under(const LimitDefinition& limit, std::int64_t patience_ns) {
  if (std::ranges::none_of(limit.parts, is_bucket)) return 0;
  const bool has_own = std::ranges::any_of(limit.parts, delays);
  return patience_ns == kDefaultPatience && !has_own ? 0 : patience_ns;
}

// Of a take_up_to, those of the single unit.
std::int64_t cost_denied(const Request& request) {
  return request.operation == Operation::kTakeUpTo ? 1 : request.cost;
}
std::int64_t patience_denied(const Request& request) {
  const bool is_up_to = request.operation == Operation::kTakeUpTo;
  return patience_under(*request.limit, is_up_to ? kDefaultPatience : request.patience_ns);
}

}  // namespace

void LastAnswers::ToldEntry::tell(const AnyPart& part, const Decision& decision, Instant at,
                                  Instant newer_than, bool shows_open) {
  Told next{.at = at,
            .used = std::max<std::int64_t>(0, decision.limit - decision.remaining),
            .reset_at = saturated_sum(at, decision.reset_after.count())};
  const auto strictness = [](const Told& one) { return std::pair(one.used, one.reset_at); };
  const bool may_be_newer = told.at > newer_than && told.reset_at > at;
  if (may_be_newer && strictness(told) >= strictness(next)) return;
  // Where nothing remains more may be used: another limit of this name may be larger. (Of a bucket
  // reset_at says how much. After a reset by another process this is too much.)
  const bool may_be_more = decision.remaining == 0 && !is_bucket(part) && told.reset_at > at;
  if (may_be_more) next.used = std::max(next.used, told.used);
  told = next;
  is_open = shows_open || (is_new && is_open);
  is_new = true;
}

// REQUIRES: until != 0; the request takes units.
bool LastAnswers::Denial::covers(const Request& request) const {
  assert(until != 0 && can_be_denied(request.operation, request.cost));
  const std::int64_t asked = patience_denied(request);
  const bool as_patient = asked == patience_ns || (asked >= 0 && asked < patience_ns);
  return as_patient && cost_denied(request) >= cost;
}

bool LastAnswers::Denial::is_over(const Request& request, const Decision& answer) const {
  assert(until != 0 && answer.allowed);
  // Then the key is not blocked any more, and the denial may have been one of a block.
  if (can_be_denied(request.operation, request.cost)) return true;
  // As much as remains of all parts is allowed, but for a delay longer than the patience.
  return numbers == numbers_hash(*request.limit) && answer.remaining >= cost &&
         (patience_ns == kDefaultPatience || std::ranges::none_of(request.limit->parts, delays));
}

LastAnswers::LastAnswers(const Options& options)
    : keeps_all_(options.keeps == Keeps::kAll),
      hold_ns_(options.hold.count()),
      told_(options.most_bytes / 2),
      denials_(options.most_bytes / 2) {}

// Odd multipliers keep any two spaces or parts apart, and spread them over all bits.
std::uint64_t LastAnswers::tag_of(const KeyName& name, std::size_t index) {
  const std::uint64_t hash =
      name.key.high ^ (name.space * 0x9E3779B97F4A7C15U) ^ (index * 0xC2B2AE3D27D4EB4FU);
  const std::uint64_t tag = hash >> (64 - kTagBits);
  return tag | (tag == 0 ? 1 : 0);
}

std::uint64_t LastAnswers::tag_of_part(const KeyName& name, std::size_t parts, std::size_t part) {
  return tag_of(name, parts == 1 ? 0 : part + 1);
}

// Null if no denial of the key is remembered. REQUIRES: the shard's lock is held.
LastAnswers::Denial* LastAnswers::denial_of(const KeyName& name, const ToldEntry& told) const {
  return told.may_be_denied ? denials_.find(number_of(name), tag_of(name)) : nullptr;
}

void LastAnswers::record(const KeyName& name, const Request& request, const Decision& told,
                         std::optional<Instant> sent, Instant at, Instant newer_than) {
  const std::size_t number = number_of(name);
  Shard& shard = shards_[number];
  const bool takes_units = sent && can_be_denied(request.operation, request.cost);
  const std::lock_guard lock(shard.lock);
  const bool is_denial = takes_units && !told.allowed && told.retry_after != kNever &&
                         is_like_a_take(request) && *sent > shard.reset_at;
  ToldEntry* const entry = keeps_all_ || is_denial ? &told_.find_or_add(number, tag_of(name), at)
                                                   : told_.find(number, tag_of(name));
  if (entry == nullptr) return;
  const bool may_be_blocked = sent.value_or(at) < shard.blocked_at;
  const auto shows_open = [&](const Decision& one) {
    const bool admits = one.allowed && can_be_denied(request.operation, request.cost);
    return !may_be_blocked && (admits || one.remaining > 0);
  };
  const bool may_be_old = entry->told.at > newer_than;
  entry->tell(request.limit->parts[told.binding], told, at, newer_than, shows_open(told));
  if (is_denial) {
    note_denial(shard, *sent);
    denials_.find_or_add(number, tag_of(name), at) = {
        .tag = tag_of(name),
        // It may be older than a refund: while the store answers, it is asked again.
        .sent_at = *sent > shard.refunded_at ? *sent : *sent - hold_ns_,
        .until = saturated_sum(*sent, told.retry_after.count()),
        .cost = cost_denied(request),
        .patience_ns = patience_denied(request),
        .numbers = numbers_hash(*request.limit),
        .binding = told.binding,
        .had_nothing = told.remaining == 0};
    entry->may_be_denied = true;
  } else if (sent && told.allowed && !may_be_old) {
    Denial* const denial = denial_of(name, *entry);
    if (denial != nullptr && denial->until != 0) {
      if (denial->is_over(request, told)) denial->until = 0;
      if (told.remaining > 0) denial->had_nothing = false;
    }
  }
  const std::size_t parts = request.limit->parts.size();
  if (parts == 1) return;
  for (std::size_t part = 0; part < parts; ++part) {
    const bool knows_all = request.parts.size() == parts;
    if (!knows_all && part != told.binding) continue;
    const Decision& own = knows_all ? request.parts[part] : told;
    told_.find_or_add(number, tag_of_part(name, parts, part), at)
        .tell(request.limit->parts[part], own, at, newer_than, shows_open(own));
  }
}

void LastAnswers::note_denial(Shard& shard, Instant now) const {
  const Instant until = now + std::max(hold_ns_, kSecondNs);
  if (shard.quiet_from.load(std::memory_order_relaxed) < until) {
    shard.quiet_from.store(until, std::memory_order_relaxed);
  }
}

bool LastAnswers::was_denied(const KeyName& name, Instant now) const {
  const std::size_t number = number_of(name);
  Shard& shard = shards_[number];
  // Without the lock: a denial that another thread is recording now may be missed.
  if (now >= shard.quiet_from.load(std::memory_order_relaxed)) {
    prefetch(told_.usual_place(number, tag_of(name)), 1);
    return false;
  }
  const std::lock_guard lock(shard.lock);
  // Else the answer would seem to be older than what was given back.
  if (now <= std::max(shard.refunded_at, shard.reset_at)) return true;
  const ToldEntry* const entry = told_.find(number, tag_of(name));
  return entry != nullptr && entry->may_be_denied;
}

bool LastAnswers::denies(const KeyName& name, const Request& request, Instant now,
                         Decision& decision) const {
  assert(request.operation == Operation::kTake || request.operation == Operation::kTakeUpTo);
  if (request.cost == 0) return false;
  const std::size_t number = number_of(name);
  const std::lock_guard lock(shards_[number].lock);
  const ToldEntry* const entry = told_.find(number, tag_of(name));
  const Denial* const denial = entry != nullptr ? denial_of(name, *entry) : nullptr;
  if (denial == nullptr || denial->until <= now || !denial->covers(request) ||
      denial->numbers != numbers_hash(*request.limit)) {
    return false;
  }
  if (is_above_a_part(request)) return false;
  // The store is asked again after a while.
  if (now - denial->sent_at >= std::min(hold_ns_, request.most_denial_age_ns)) return false;
  const std::int64_t quota = numbers_of(request.limit->parts[denial->binding]).quota;
  // The latest answer may have told what another part has.
  const std::size_t parts = request.limit->parts.size();
  const ToldEntry* const part = told_.find(number, tag_of_part(name, parts, denial->binding));
  const Told& told = (part != nullptr ? part : entry)->told;
  decision = {
      .source = Source::kCache,
      .binding = denial->binding,
      .limit = quota,
      .remaining = std::clamp<std::int64_t>(quota - told.used, 0, request.cost - 1),
      .retry_after = std::chrono::nanoseconds(denial->until - now),
      .reset_after = std::chrono::nanoseconds(std::max(told.reset_at, denial->until) - now)};
  return true;
}

void LastAnswers::ask_again(const KeyName& name, Instant now, bool is_reset) {
  const std::size_t number = number_of(name);
  Shard& shard = shards_[number];
  const std::lock_guard lock(shard.lock);
  Instant& returned_at = is_reset ? shard.reset_at : shard.refunded_at;
  returned_at = std::max(returned_at, now);
  note_denial(shard, now);
  ToldEntry* const entry = told_.find(number, tag_of(name));
  if (entry == nullptr) return;
  if (Denial* const denial = denials_.find(number, tag_of(name))) {
    // It is over, or older than the entry.
    if (is_reset || !entry->may_be_denied) denial->until = 0;
    denial->sent_at = now - hold_ns_;
  }
  entry->may_be_denied = true;
}

void LastAnswers::note_block(const KeyName& name, Instant now) {
  Shard& shard = shards_[number_of(name)];
  const std::lock_guard lock(shard.lock);
  shard.blocked_at = std::max(shard.blocked_at, now);
}

LastAnswers::News LastAnswers::take_new(const KeyName& name, const LimitDefinition& limit) {
  News news;
  const std::size_t number = number_of(name);
  const std::size_t parts = limit.parts.size();
  const std::lock_guard lock(shards_[number].lock);
  if (const ToldEntry* const whole = told_.find(number, tag_of(name))) {
    const Denial* const denial = denial_of(name, *whole);
    if (denial != nullptr && denial->had_nothing && denial->numbers == numbers_hash(limit)) {
      news.denied = {denial->cost, denial->patience_ns, denial->until};
    }
  }
  for (std::size_t part = 0; part < parts; ++part) {
    ToldEntry* const entry = told_.find(number, tag_of_part(name, parts, part));
    if (entry == nullptr || !entry->is_new) continue;
    entry->is_new = false;
    news.parts[part] = NewlyTold{entry->told, entry->is_open};
  }
  return news;
}

}  // namespace sluice
