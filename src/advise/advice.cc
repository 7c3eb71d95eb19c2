#include "advise/advice.h"

#include <algorithm>

#include "advise/suggest.h"
#include "replay/text.h"

namespace sluice::advise {
namespace {

/// The place of one minute among the lengths of windows.
constexpr std::size_t kMinute = 2;

/// The smaller of what a length's sliding_log and its sliding_window say. A log counts exactly, up
/// to kLargestLog units; a window counts what comes in up to a tenth more than its length.
template <class Of>
std::int64_t units_in_window(std::size_t length, const Of& of) {
  return std::min(of(kFirstLog + length), of(kFirstSliding + length));
}

HitKey hit_key(const Traffic& traffic, const KeyTraffic& key, const Choice& choice) {
  const FrequentTexts::Entry agent = key.user_agents.most_frequent();
  const FrequentTexts::Entry path = key.paths.most_frequent();
  return {.key = key.key,
          .requests = key.requests,
          .denied = key.denied(choice.family, choice.balanced),
          .needs = key.peak(choice.family),
          .busiest_minute =
              units_in_window(kMinute, [&](std::size_t family) { return key.peak(family); }),
          .span_ns = key.last_ns - key.first_ns,
          .client_errors = key.client_errors,
          .server_errors = key.server_errors,
          .user_agent = traffic.user_agents().text(agent.number),
          .user_agent_requests = agent.at_least,
          .path = traffic.paths().text(path.number),
          .path_requests = path.at_least};
}

/// The same for the leaky buckets that admit the same.
FamilyAdvice advise_leaky(const FamilyInfo& buckets, FamilyAdvice advice) {
  advice.expression = buckets.leaky_bucket().pattern();
  for (auto* limits : {&advice.keys, &advice.requests}) {
    for (std::int64_t& limit : *limits) limit -= limit < kMaxCount ? 1 : 0;
  }
  return advice;
}

std::vector<FamilyAdvice> advise_families(const std::vector<Ranking>& rankings,
                                          const std::vector<std::size_t>& visible) {
  std::vector<FamilyAdvice> all;
  std::vector<FamilyAdvice> leaky;
  for (const std::size_t family : visible) {
    const FamilyInfo& info = limit_families().info[family];
    FamilyAdvice advice{.expression = info.pattern()};
    for (std::size_t i = 0; i < kDeniedShares.size(); ++i) {
      advice.keys[i] = rankings[family].limit_for_keys(kDeniedShares[i]);
      advice.requests[i] = rankings[family].limit_for_requests(kDeniedShares[i]);
    }
    if (info.is_bucket()) leaky.push_back(advise_leaky(info, advice));
    all.push_back(std::move(advice));
  }
  all.insert(all.end(), leaky.begin(), leaky.end());
  return all;
}

std::vector<Burstiness> burstiness_of(const std::vector<Ranking>& rankings,
                                      const std::vector<std::size_t>& visible) {
  std::vector<Burstiness> all;
  for (const std::size_t family : visible) {
    if (family < kFirstSliding || family >= kFirstFixed) continue;
    const auto units_of_all_but = [&](std::uint64_t thousandths) {
      return units_in_window(family - kFirstSliding, [&](std::size_t measured) {
        return rankings[measured].limit_for_keys(thousandths);
      });
    };
    all.push_back({.window_ns = limit_families().info[family].period_ns,
                   .half = units_of_all_but(500),
                   .nine_tenths = units_of_all_but(100),
                   .all_but_hundredth = units_of_all_but(10),
                   .most = units_of_all_but(0)});
  }
  return all;
}

/// Whether so many requests came too late that their bursts are worth no advice.
bool has_too_many_late(const Advice& advice) {
  return advice.log.late * 100 > advice.log.requests;
}

/// What the data cannot tell.
std::vector<std::string> unknowns_of(const Advice& advice) {
  constexpr std::uint64_t kManyKeys = 1'000;
  std::vector<std::string> all;
  if (advice.log.requests == 0) return all;
  const std::int64_t span_ns = advice.log.last_ns - advice.log.first_ns;
  if (span_ns < 7 * kDayNs) {
    all.push_back("The data spans " + replay::rough_duration(span_ns) +
                  ": it shows no whole week, and no rare event such as a release or a sale.");
  }
  if (advice.is_sample) {
    all.push_back(
        "There were too many keys to keep all: the shares are estimates from a sample of " +
        replay::grouped(advice.keys_kept) +
        " keys, chosen by a hash of the key, to which the busiest are added.");
  } else if (advice.keys < kManyKeys) {
    all.push_back("With " + replay::count_of(advice.keys, "key") +
                  ", 0.1 % is less than one of them.");
  }
  if (advice.suggestions.empty() && !has_too_many_late(advice)) {
    all.push_back("All of these requests are peeks, whose cost is 0, so there is no advice.");
  }
  if (advice.log.late > 0) {
    all.push_back(replay::count_of(advice.log.late, "request") +
                  " came too late to be put in the order of time" +
                  (has_too_many_late(advice) ? ", which is too many for any advice" : "") +
                  ": late requests look like bursts. Sort the lines of each file by time first.");
  }
  if (advice.is_in_seconds) {
    all.push_back("The data has whole seconds: what happens within a second is not visible.");
  }
  if (advice.log.key.find("{ip}") != std::string::npos) {
    all.push_back(
        "Many people may share one address, and one client may use many: such clients "
        "need another key, for example an account.");
  }
  all.push_back(
      "All of these requests were let through. Clients that are denied behave differently: "
      "some slow down, some try again at once.");
  all.push_back(
      "A limit per key does not bound all keys together, and the data does not tell how "
      "much load the service can bear.");
  return all;
}

/// Adds the limits. REQUIRES: a ranking has a key with a request of a unit.
void add_limits(Advice& advice, const Traffic& traffic, const std::vector<Ranking>& rankings) {
  std::vector<std::size_t> visible;
  for (std::size_t family = 0; family < kFamilies; ++family) {
    const FamilyInfo& info = limit_families().info[family];
    const bool is_longer = info.period_ns > advice.log.last_ns - advice.log.first_ns;
    if (info.is_bucket() || !is_longer) visible.push_back(family);
  }
  advice.families = advise_families(rankings, visible);
  advice.burstiness = burstiness_of(rankings, visible);
  const Choice choice = choose(rankings, visible);
  const Ranking& ranking = rankings[choice.family];
  advice.balanced_family = choice.family;
  advice.suggestions = describe(choice, ranking, advice.is_sample);
  for (std::size_t rank = 0; rank < std::min(kMostHit, ranking.size()); ++rank) {
    advice.hit_first.push_back(hit_key(traffic, ranking.key(rank), choice));
  }
}

}  // namespace

Advice make_advice(const Traffic& traffic, const replay::LogSummary& log) {
  Advice advice{.log = log,
                .is_sample = traffic.is_sample(),
                .is_in_seconds = traffic.is_in_seconds(),
                .has_status = traffic.has_status(),
                .families = {},
                .burstiness = {},
                .hit_first = {},
                .suggestions = {},
                .unknowns = {}};
  const std::vector<Traffic::Weighted> keys = traffic.keys();
  std::vector<Ranking> rankings;
  rankings.reserve(kFamilies);
  for (std::size_t family = 0; family < kFamilies; ++family) rankings.emplace_back(keys, family);
  advice.keys_kept = keys.size();
  advice.keys = rankings[0].total();
  const bool asks_for_units = !keys.empty() && rankings[0].peak(0) > 0;
  if (asks_for_units && !has_too_many_late(advice)) add_limits(advice, traffic, rankings);
  advice.unknowns = unknowns_of(advice);
  return advice;
}

}  // namespace sluice::advise
