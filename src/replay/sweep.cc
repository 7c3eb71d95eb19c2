#include "replay/sweep.h"

#include <algorithm>
#include <cassert>
#include <charconv>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/ascii.h"
#include "stores/stores.h"

namespace sluice::replay {
namespace {

/// Whether a number of units may begin after this text: the first number of a part, or the value of
/// an option whose unit is units. Other numbers are in durations.
bool precedes_units(std::string_view before) {
  if (before.ends_with("burst=") || before.ends_with("queue=")) return true;
  const std::size_t part =
      before.rfind("& ") == std::string_view::npos ? 0 : before.rfind("& ") + 2;
  const std::string_view words = before.substr(part);
  return words.ends_with(' ') && std::count(words.begin(), words.end(), ' ') == 1;
}

std::string scaled(std::string_view digits, int percent) {
  std::int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const Int128 product = Int128{number} * percent / 100;
  const std::int64_t least = number == 0 ? 0 : 1;  // A queue may be 0.
  return std::to_string(
      static_cast<std::int64_t>(std::clamp<Int128>(product, least, Int128{kMaxCount} + 1)));
}

}  // namespace

std::string scaled_expression(std::string_view expression, int percent) {
  std::string out;
  std::size_t at = 0;
  while (at < expression.size()) {
    std::size_t end = at;
    while (end < expression.size() && is_digit(expression[end])) ++end;
    if (end > at && precedes_units(expression.substr(0, at))) {
      out += scaled(expression.substr(at, end - at), percent);
    } else {
      end = std::max(end, at + 1);
      out += expression.substr(at, end - at);
    }
    at = end;
  }
  return out;
}

Sweep::Sweep(const std::vector<Limit>& limits, std::size_t max_store_bytes)
    : store_(open_bare_store("memory:?max_bytes=" + std::to_string(max_store_bytes),
                             {.virtual_time = true})),
      limits_(limits.size()) {
  for (std::size_t origin = 0; origin < limits.size(); ++origin) {
    std::string last = limits[origin].expression();
    for (std::size_t i = 0; i < kPercents.size(); ++i) {
      const std::string expression = scaled_expression(limits[origin].expression(), kPercents[i]);
      if (expression == last || expression == limits[origin].expression()) continue;
      last = expression;
      try {
        // A name of its own, as equal versions of two limits would share their states.
        Limit limit(expression, "version." + std::to_string(versions_.size()));
        auto space = store_->open_space(limit.definition());
        versions_.push_back({.limit = std::move(limit),
                             .space = std::move(space),
                             .percent = kPercents[i],
                             .origin = origin,
                             .bit = static_cast<std::uint8_t>(1U << i)});
      } catch (const InvalidLimit&) {
        // The larger number is out of range: there is no such limit.
      }
    }
  }
}

void Sweep::decide(std::span<const Request> requests, std::span<const Tally::KeyId> keys,
                   Instant now) {
  assert(!requests.empty() && keys.size() == requests.size());
  if (is_stopped_) return;
  add_keys(*std::max_element(keys.begin(), keys.end()));
  followed_.clear();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (follows(keys[i])) followed_.push_back(i);
  }
  if (followed_.empty()) return;
  asked_.resize(std::max(asked_.size(), requests.size()));
  decisions_.resize(asked_.size());
  try {
    for (const Version& version : versions_) decide(version, requests, keys, now);
  } catch (const StoreError&) {
    is_stopped_ = true;
    versions_.clear();
    store_.reset();
  }
}

void Sweep::decide(const Version& version, std::span<const Request> requests,
                   std::span<const Tally::KeyId> keys, Instant now) {
  const auto row = [&](std::size_t i) -> std::uint8_t& {
    return denied_[keys[i] * limits_ + version.origin];
  };
  asking_.clear();
  for (const std::size_t i : followed_) {
    if ((row(i) & version.bit) != 0) continue;
    Request& request = asked_[asking_.size()];
    request = requests[i];
    request.limit = &version.limit.definition();
    request.space = version.space.get();
    asking_.push_back(i);
  }
  if (asking_.empty()) return;
  store_->decide(std::span(asked_).first(asking_.size()), now, decisions_);
  for (std::size_t n = 0; n < asking_.size(); ++n) {
    std::uint8_t& bits = row(asking_[n]);
    if (!decisions_[n].allowed) bits = static_cast<std::uint8_t>(bits | version.bit);
  }
}

bool Sweep::follows(Tally::KeyId key) const {
  constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;  // 2^64 divided by the golden ratio.
  return key < kFirstKeys || ((key * kSpread >> 32) & mask_) == 0;
}

/// Adds the keys up to this one. Keys are numbered in the order of their first requests.
void Sweep::add_keys(Tally::KeyId last) {
  for (; keys_ <= last; ++keys_) {
    if (keys_ >= kFirstKeys && follows(static_cast<Tally::KeyId>(keys_))) ++later_;
  }
  denied_.resize(keys_ * limits_);
  while (later_ > kMaxLaterKeys) {
    mask_ = mask_ * 2 + 1;
    later_ = 0;
    for (std::uint64_t key = kFirstKeys; key < keys_; ++key) {
      later_ += follows(static_cast<Tally::KeyId>(key)) ? 1 : 0;
    }
  }
}

std::optional<SweepResult> Sweep::result(std::size_t limit) const {
  if (is_stopped_) return std::nullopt;
  SweepResult result{
      .keys = std::min(keys_, kFirstKeys) + later_, .is_sample = mask_ != 0, .points = {}};
  for (const Version& version : versions_) {
    if (version.origin != limit) continue;
    result.points.push_back({version.percent, version.limit.expression(), keys_limited(version)});
  }
  return result;
}

std::uint64_t Sweep::keys_limited(const Version& version) const {
  std::uint64_t first = 0;
  std::uint64_t later = 0;
  for (std::uint64_t key = 0; key < keys_; ++key) {
    if (!follows(static_cast<Tally::KeyId>(key))) continue;
    if ((denied_[key * limits_ + version.origin] & version.bit) == 0) continue;
    ++(key < kFirstKeys ? first : later);
  }
  return later_ == 0 ? first : first + (later * (keys_ - kFirstKeys) + later_ / 2) / later_;
}

}  // namespace sluice::replay
