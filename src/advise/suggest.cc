#include "advise/suggest.h"

#include <algorithm>
#include <cassert>
#include <optional>

#include "core/instant.h"
#include "replay/text.h"

namespace sluice::advise {
namespace {

/// How long a key that has used up its units may have to wait for all of them, in order of
/// preference.
constexpr std::int64_t kRecoveries[] = {10 * kMinuteNs, kHourNs, kDayNs};

/// With fewer keys, none stands out.
constexpr std::size_t kFewKeys = 5;
/// At most one of so many keys stands out.
constexpr std::uint64_t kOutlierShare = 20;
/// A limit leaves all other keys room for so many times what they asked for, and some units more,
/// without which small numbers would stand out by chance.
constexpr std::int64_t kRoomFactor = 2;
constexpr std::int64_t kRoomUnits = 10;

/// A limit of a family, and how many of the first keys of its ranking it denies, all of which need
/// more than twice as much as each other key.
struct Split {
  std::size_t family = 0;
  std::size_t limit = 0;
  std::size_t outliers = 0;
  std::uint64_t denied = 0;
};

/// The family whose peaks tell the room for twice the traffic: what twice as many requests need of
/// a bucket is at most twice what the requests need of one with half its rate, or less.
std::size_t room_family(std::size_t family) {
  const bool is_bucket = limit_families().info[family].is_bucket();
  return is_bucket && family > 0 ? family - 1 : family;
}

/// The smallest limit with room for all keys of a ranking from `first` on; nothing if there is
/// none. `most` is the most that one of them needs of room_family().
std::optional<std::size_t> roomy_limit(std::size_t family, std::int64_t most) {
  const std::int64_t last = limit_series().back();
  if (most >= (last - kRoomUnits) / kRoomFactor) return std::nullopt;
  const std::size_t limit = series_index(kRoomFactor * most + kRoomUnits);
  if (limit >= limit_families().info[family].limits) return std::nullopt;
  return limit;
}

/// The best split of one family, if its keys can be split.
std::optional<Split> best_split(const Ranking& ranking, std::size_t family,
                                std::int64_t recovery_ns) {
  if (ranking.size() < kFewKeys) return std::nullopt;
  const std::uint64_t most_outliers = std::max<std::uint64_t>(1, ranking.total() / kOutlierShare);
  // By rank: the most that this key or one after it needs of room_family().
  std::vector<std::int64_t> most(ranking.size());
  std::int64_t most_needed = 0;
  for (std::size_t rank = ranking.size(); rank > 0; --rank) {
    most_needed = std::max(most_needed, ranking.key(rank - 1).peak(room_family(family)));
    most[rank - 1] = most_needed;
  }
  std::optional<Split> best;
  std::uint64_t weight = 0;
  for (std::size_t end = 1; end < ranking.size(); ++end) {
    weight += ranking.weight(end - 1);
    if (weight > most_outliers) break;
    const auto limit = roomy_limit(family, most[end]);
    if (!limit || limit_series()[*limit] >= ranking.peak(end - 1)) continue;
    if (limit_families().info[family].recovery_ns(limit_series()[*limit]) > recovery_ns) continue;
    const std::uint64_t denied = ranking.denied(*limit, end);
    if (!best || denied > best->denied) best = {family, *limit, end, denied};
  }
  return best;
}

/// The best split of the families that are suggested: buckets, and windows that hold whenever they
/// begin.
std::optional<Split> find_split(const std::vector<Ranking>& rankings,
                                const std::vector<std::size_t>& visible) {
  for (const std::int64_t recovery_ns : kRecoveries) {
    std::optional<Split> best;
    for (const std::size_t family : visible) {
      // The slowest bucket only tells the room in the next one.
      if (family == 0 || family >= kFirstFixed) continue;
      const auto split = best_split(rankings[family], family, recovery_ns);
      if (split && (!best || split->denied > best->denied)) best = split;
    }
    if (best) return best;
  }
  return std::nullopt;
}

/// The bucket of the lowest rate at which a limit for all but a hundredth of the keys is full again
/// within minutes.
std::size_t bucket_for_most(const std::vector<Ranking>& rankings,
                            const std::vector<std::size_t>& visible) {
  std::size_t family = 0;
  for (const std::size_t next : visible) {
    if (!limit_families().info[next].is_bucket()) break;
    family = next;
    const std::int64_t limit = rankings[family].limit_for_keys(10);
    if (limit_families().info[family].recovery_ns(limit) <= kRecoveries[0]) break;
  }
  return family;
}

}  // namespace

Choice choose(const std::vector<Ranking>& rankings, const std::vector<std::size_t>& visible) {
  assert(std::ranges::any_of(rankings, [](const Ranking& ranking) { return ranking.size() > 0; }));
  Choice choice;
  const auto split = find_split(rankings, visible);
  if (split) {
    choice.family = split->family;
    choice.outliers = split->outliers;
    choice.balanced = split->limit;
    choice.strict = series_index(rankings[choice.family].limit_for_keys(50));
    choice.lenient = series_index(2 * limit_series()[choice.balanced]);
  } else {
    choice.family = bucket_for_most(rankings, visible);
    const Ranking& ranking = rankings[choice.family];
    choice.strict = series_index(ranking.limit_for_keys(50));
    choice.balanced = series_index(ranking.limit_for_keys(10));
    choice.lenient = series_index(ranking.limit_for_keys(1));
  }
  // Three different ones, of those that the algorithm can have.
  const std::size_t last = limit_families().info[choice.family].limits - 1;
  choice.balanced = std::clamp<std::size_t>(choice.balanced, 1, last - 1);
  choice.strict = std::min(choice.strict, choice.balanced - 1);
  choice.lenient = std::clamp(choice.lenient, choice.balanced + 1, last);
  return choice;
}

namespace {

std::string why_strict(bool denies_most) {
  return denies_most ? "The round number below balanced: it denies something to most keys. Choose "
                       "it only where a request is costly."
                     : "Leaves most keys what they asked for, and little more. Choose it where a "
                       "request is costly, and expect that clients of good will are denied now and "
                       "then.";
}

std::string why_balanced(const Choice& choice, const Ranking& ranking, bool is_sample) {
  if (choice.outliers == 0 && choice.balanced != series_index(ranking.limit_for_keys(10))) {
    return "No small group of keys stands out, so this is the round number closest to the smallest "
           "that denies something to at most 1 % of the keys, with one left below it for strict "
           "and one above it for lenient.";
  }
  if (choice.outliers == 0) {
    return "No small group of keys stands out, so this is the smallest round number that denies "
           "something to at most 1 % of the keys. Look at them before you choose it.";
  }
  std::uint64_t keys = 0;
  std::uint64_t requests = 0;
  for (std::size_t rank = 0; rank < choice.outliers; ++rank) {
    keys += ranking.weight(rank);
    requests += ranking.weight(rank) * ranking.key(rank).requests;
  }
  return (keys > choice.outliers ? "About " : "") + replay::count_of(keys, "key") +
         (keys == 1 ? " stands out: " : " stand out: ") +
         replay::percent(ranking.denied(choice.balanced, choice.outliers), requests) + " of " +
         (keys == 1 ? "its" : "their") +
         " requests are denied, and there is room for twice what every other key" +
         (is_sample ? " of the sample" : "") + " asked for.";
}

std::string why_lenient(bool denies_any, bool is_sample) {
  if (denies_any) {
    return "Room for more growth than balanced. Start with it where a wrong denial costs more than "
           "a load, and come closer step by step.";
  }
  return std::string(is_sample ? "Would have denied nothing to the keys of the sample; it denies "
                                 "only keys that ask for more than these did."
                               : "Would have denied nothing in this data; it denies only keys that "
                                 "ask for more than any key did here.") +
         " Start with it where a wrong denial is worse than much load.";
}

}  // namespace

std::vector<Suggestion> describe(const Choice& choice, const Ranking& ranking, bool is_sample) {
  const FamilyInfo& info = limit_families().info[choice.family];
  const auto make = [&](std::string name, std::size_t limit) {
    return Suggestion{.name = std::move(name),
                      .expression = info.expression(limit_series()[limit]),
                      .requests_denied = ranking.denied(limit, ranking.size()),
                      .keys_denied = ranking.keys_above(limit_series()[limit]),
                      .reason = {}};
  };
  std::vector<Suggestion> three = {make("strict", choice.strict), make("balanced", choice.balanced),
                                   make("lenient", choice.lenient)};
  three[0].reason = why_strict(three[0].keys_denied * 2 > ranking.total());
  three[1].reason = why_balanced(choice, ranking, is_sample);
  three[2].reason = why_lenient(three[2].keys_denied > 0, is_sample);
  return three;
}

}  // namespace sluice::advise
