#include "advise/limit_families.h"

#include <algorithm>

#include "core/arithmetic.h"
#include "core/instant.h"
#include "core/limit_syntax.h"
#include "sluice/limit.h"

namespace sluice::advise {
namespace {

constexpr std::int64_t kLastLimit = 1'000'000'000'000;

struct Rate {
  std::int64_t count;
  std::string_view period;
};

constexpr std::array<Rate, kRates> kBucketRates = {{{3, "1m"},
                                                    {6, "1m"},
                                                    {12, "1m"},
                                                    {30, "1m"},
                                                    {1, "1s"},
                                                    {2, "1s"},
                                                    {5, "1s"},
                                                    {10, "1s"},
                                                    {20, "1s"},
                                                    {50, "1s"}}};

constexpr std::array<std::string_view, kWindows> kWindowLengths = {"1s",  "10s", "1m",
                                                                   "10m", "1h",  "1d"};

std::int64_t nanoseconds_of(std::string_view duration) {
  return parse_duration(duration, 0, duration.size());
}

template <class A>
typename A::Params params_of(const std::string& expression) {
  return std::get<Part<A>>(parse_parts(expression).at(0)).params;
}

/// The family of this description with limits up to `largest`; sets how many these are.
template <class A>
LimitFamily<A> make_family(FamilyInfo& info, std::int64_t largest) {
  LimitFamily<A> family{.unlimited = params_of<A>(info.expression(largest)), .limits = {}};
  for (const std::int64_t limit : limit_series()) {
    if (limit <= largest) family.limits.push_back(params_of<A>(info.expression(limit)));
  }
  info.limits = family.limits.size();
  return family;
}

/// A bucket's burst is bounded by the time that it takes to fill.
std::int64_t largest_burst(const FamilyInfo& bucket) {
  return std::min(kMaxCount, kMaxDurationNs / ceil_divide(bucket.period_ns, bucket.rate));
}

}  // namespace

const std::vector<std::int64_t>& limit_series() {
  static const std::vector<std::int64_t> series = [] {
    std::vector<std::int64_t> made = {1, 2, 3, 5, 7};
    for (std::int64_t ten = 10; ten < kLastLimit; ten *= 10) {
      for (const std::int64_t tenth : {10, 15, 20, 30, 50, 70}) made.push_back(ten / 10 * tenth);
    }
    made.push_back(kLastLimit);
    return made;
  }();
  return series;
}

std::size_t series_index(std::int64_t number) {
  const std::vector<std::int64_t>& series = limit_series();
  const auto found = std::lower_bound(series.begin(), series.end() - 1, number);
  return static_cast<std::size_t>(found - series.begin());
}

std::int64_t FamilyInfo::recovery_ns(std::int64_t limit) const {
  if (!is_bucket()) return period_ns;
  const auto filled = Int128{limit} * period_ns / rate;
  return static_cast<std::int64_t>(std::min<Int128>(filled, kMaxDurationNs));
}

FamilyInfo FamilyInfo::leaky_bucket() const {
  const std::size_t space = before.find(' ');
  FamilyInfo leaky = *this;
  leaky.before = LeakyBucket::kName;
  leaky.before.append(before, space, before.rfind(' ') - space).append(" queue=");
  return leaky;
}

LimitFamilies::LimitFamilies() {
  std::size_t number = 0;
  for (std::size_t i = 0; i < kRates; ++i) {
    const Rate& rate = kBucketRates[i];
    info[number] = {.before = std::string(TokenBucket::kName) + ' ' + std::to_string(rate.count) +
                              '/' + std::string(rate.period) + " burst=",
                    .after = {},
                    .period_ns = nanoseconds_of(rate.period),
                    .rate = rate.count};
    buckets[i] = make_family<TokenBucket>(info[number], largest_burst(info[number]));
    ++number;
  }
  const auto add_windows = [&]<class A>(std::array<LimitFamily<A>, kWindows>& families,
                                        std::int64_t largest = kMaxCount) {
    for (std::size_t i = 0; i < kWindows; ++i) {
      info[number] = {.before = std::string(A::kName).append(" "),
                      .after = '/' + std::string(kWindowLengths[i]),
                      .period_ns = nanoseconds_of(kWindowLengths[i])};
      families[i] = make_family<A>(info[number++], largest);
    }
  };
  add_windows(sliding);
  add_windows(fixed);
  add_windows(counters);
  add_windows(logs, kLargestLog);
}

const LimitFamilies& limit_families() {
  static const LimitFamilies families;
  return families;
}

}  // namespace sluice::advise
