#include "replay/sweep.h"

#include <algorithm>
#include <charconv>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "stores/stores.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kBatch = 64;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

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
  return std::to_string(
      static_cast<std::int64_t>(std::clamp<Int128>(product, 1, Int128{kMaxCount} + 1)));
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
        Limit limit(expression);
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

void Sweep::decide(std::span<Request> requests, std::span<const Tally::KeyId> keys, Instant now) {
  if (is_stopped_) return;
  const std::size_t rows = std::size_t{*std::max_element(keys.begin(), keys.end())} + 1;
  if (denied_.size() < rows * limits_) denied_.resize(rows * limits_);
  try {
    for (Version& version : versions_) decide(version, requests, keys, now);
  } catch (const StoreError&) {
    is_stopped_ = true;
    versions_.clear();
    store_.reset();
  }
}

void Sweep::decide(Version& version, std::span<Request> requests,
                   std::span<const Tally::KeyId> keys, Instant now) {
  std::array<Request, kBatch> asked;
  std::array<Decision, kBatch> decisions;
  std::array<Tally::KeyId, kBatch> asking;
  std::size_t size = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if ((denied_[keys[i] * limits_ + version.origin] & version.bit) != 0) continue;
    asked[size] = requests[i];
    asked[size].limit = &version.limit.definition();
    asked[size].space = version.space.get();
    asking[size++] = keys[i];
  }
  if (size == 0) return;
  store_->decide(std::span(asked).first(size), now, decisions);
  for (std::size_t i = 0; i < size; ++i) {
    std::uint8_t& row = denied_[asking[i] * limits_ + version.origin];
    if (decisions[i].allowed || (row & version.bit) != 0) continue;
    row = static_cast<std::uint8_t>(row | version.bit);
    ++version.keys_limited;
  }
}

std::optional<std::vector<SweepPoint>> Sweep::points(std::size_t limit) const {
  if (is_stopped_) return std::nullopt;
  std::vector<SweepPoint> points;
  for (const Version& version : versions_) {
    if (version.origin != limit) continue;
    points.push_back({version.percent, version.limit.expression(), version.keys_limited});
  }
  return points;
}

}  // namespace sluice::replay
