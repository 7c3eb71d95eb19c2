#include "core/limit_syntax.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/ascii.h"
#include "core/instant.h"
#include "core/near_miss.h"

namespace sluice {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t ns;
};

// Longest first, so that a duration is written with the largest units.
constexpr std::array<Unit, 8> kUnits{{{"w", 604'800'000'000'000},
                                      {"d", 86'400'000'000'000},
                                      {"h", 3'600'000'000'000},
                                      {"m", 60'000'000'000},
                                      {"s", 1'000'000'000},
                                      {"ms", 1'000'000},
                                      {"us", 1'000},
                                      {"ns", 1}}};

constexpr bool is_space(char c) {
  return c == ' ' || c == '\t';
}

[[noreturn]] void fail(std::string_view expression, std::size_t position,
                       const std::string& message) {
  std::string sentence = "limit '" + std::string(expression.substr(0, kMaxExpressionBytes)) +
                         "': " + message + ", at character " + std::to_string(position + 1);
  // One sentence on one line, whatever the text was made of.
  std::ranges::replace_if(
      sentence, [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  throw InvalidLimit(sentence, position);
}

// Reads the digits at [begin, end).
std::int64_t parse_number(std::string_view expression, std::size_t begin, std::size_t end,
                          std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const auto result = std::from_chars(expression.data() + begin, expression.data() + end, value);
  // A sign is no digit, but std::from_chars() reads it.
  const bool whole =
      begin < end && is_digit(expression[begin]) && result.ptr == expression.data() + end;
  if (result.ec != std::errc{} || !whole || value < least || value > most) {
    fail(expression, begin,
         "'" + std::string(expression.substr(begin, end - begin)) +
             "' is not a whole number from " + std::to_string(least) + " to " +
             std::to_string(most));
  }
  return value;
}

template <class Predicate>
std::size_t skip(std::string_view text, std::size_t from, std::size_t end, Predicate predicate) {
  while (from < end && predicate(text[from])) ++from;
  return from;
}

}  // namespace

std::int64_t parse_duration(std::string_view expression, std::size_t begin, std::size_t end) {
  std::int64_t total_ns = 0;
  std::size_t at = begin;
  if (at == end) fail(expression, at, "a duration is missing here (10s, 1h30m)");
  while (at < end) {
    const std::size_t digits_end = skip(expression, at, end, is_digit);
    const std::size_t unit_end = skip(expression, digits_end, end, is_letter);
    const auto unit_name = expression.substr(digits_end, unit_end - digits_end);
    const auto* unit = std::find_if(kUnits.begin(), kUnits.end(),
                                    [&](const Unit& u) { return u.name == unit_name; });
    if (unit == kUnits.end() && unit_name.empty()) {
      fail(expression, digits_end, "a unit of time is missing here (ns us ms s m h d w)");
    }
    if (unit == kUnits.end()) {
      fail(expression, digits_end,
           "the unit '" + std::string(unit_name) +
               "' is unknown; the units of time are ns us ms s m h d w");
    }
    // `100/s` means `100/1s`, so the first number may be left out.
    const bool bare = digits_end == at;
    if (bare && (at != begin || unit_end != end)) {
      fail(expression, at, "a number is missing before the unit");
    }
    std::int64_t number = 1;
    std::int64_t part_ns = 0;
    const char* digits = expression.data() + at;
    if ((!bare &&
         std::from_chars(digits, expression.data() + digits_end, number).ec != std::errc{}) ||
        __builtin_mul_overflow(number, unit->ns, &part_ns) ||
        __builtin_add_overflow(total_ns, part_ns, &total_ns) || total_ns > kMaxDurationNs) {
      fail(expression, at, "a duration is at most 2^61 ns, about 73 years");
    }
    at = unit_end;
  }
  if (total_ns == 0) fail(expression, begin, "a duration is at least 1ns");
  return total_ns;
}

std::string format_duration(std::int64_t duration_ns) {
  std::string text;
  for (const auto& unit : kUnits) {
    if (duration_ns < unit.ns) continue;
    text += std::to_string(duration_ns / unit.ns);
    text += unit.name;
    duration_ns %= unit.ns;
  }
  return text.empty() ? "0s" : text;
}

std::int64_t PartSyntax::count() const {
  if (!count_) fail_count("a count is missing here (100/1s)");
  return *count_;
}

std::int64_t PartSyntax::duration_ns() const {
  if (!duration_ns_) {
    fail(expression_, offset_of(count_text_) + count_text_.size(),
         "'/' and a duration are missing here (100/1s)");
  }
  return *duration_ns_;
}

std::size_t PartSyntax::offset_of(std::string_view piece) const {
  return static_cast<std::size_t>(piece.data() - expression_.data());
}

PartSyntax::Option* PartSyntax::find(std::string_view name) {
  known_.push_back(name);
  for (auto& option : options_) {
    if (option.name != name) continue;
    option.asked_for = true;
    return &option;
  }
  return nullptr;
}

std::optional<std::int64_t> PartSyntax::count_option(std::string_view name, std::int64_t least) {
  const Option* option = find(name);
  if (option == nullptr) return std::nullopt;
  const std::size_t begin = offset_of(option->value);
  return parse_number(expression_, begin, begin + option->value.size(), least, kMaxCount);
}

std::optional<std::int64_t> PartSyntax::duration_option(std::string_view name) {
  const Option* option = find(name);
  if (option == nullptr) return std::nullopt;
  const std::size_t begin = offset_of(option->value);
  return parse_duration(expression_, begin, begin + option->value.size());
}

std::optional<std::size_t> PartSyntax::word_option(std::string_view name,
                                                   std::initializer_list<std::string_view> words) {
  const Option* option = find(name);
  if (option == nullptr) return std::nullopt;
  const auto* word = std::find(words.begin(), words.end(), option->value);
  if (word == words.end()) {
    std::string choices;
    for (const auto choice : words)
      choices += (choices.empty() ? "" : " or ") + std::string(choice);
    fail_option(name, std::string(name) + " is " + choices);
  }
  return static_cast<std::size_t>(word - words.begin());
}

bool PartSyntax::yes_no_option(std::string_view name, bool otherwise) {
  const auto word = word_option(name, {"no", "yes"});
  return word ? *word == 1 : otherwise;
}

void PartSyntax::finish() const {
  for (const auto& option : options_) {
    if (option.asked_for) continue;
    std::string message = std::string(algorithm_) + " has no option '" + std::string(option.name);
    message +=
        known_.empty() ? "', nor any other" : "'" + suggest_name(option.name, known_) + "; it has";
    for (const auto name : known_) message += " " + std::string(name);
    fail(expression_, offset_of(option.name), message);
  }
}

void PartSyntax::refuse_duration(const std::string& message) const {
  if (duration_ns_) fail_duration(message);
}

void PartSyntax::fail_count(const std::string& message) const {
  fail(expression_, offset_of(count_text_), message);
}

void PartSyntax::fail_duration(const std::string& message) const {
  fail(expression_, offset_of(duration_text_), message);
}

void PartSyntax::fail_option(std::string_view name, const std::string& message) const {
  for (const auto& option : options_) {
    if (option.name == name) fail(expression_, offset_of(option.value), message);
  }
  fail_algorithm(message);
}

void PartSyntax::fail_algorithm(const std::string& message) const {
  fail(expression_, offset_of(algorithm_), message);
}

std::vector<PartSyntax> parse_limit_syntax(std::string_view expression) {
  if (expression.size() > kMaxExpressionBytes) {
    fail(expression, kMaxExpressionBytes,
         "an expression has at most " + std::to_string(kMaxExpressionBytes) + " characters");
  }
  std::vector<PartSyntax> parts;
  std::size_t at = 0;
  const std::size_t end = expression.size();
  const auto word_end = [&](std::size_t from) {
    return skip(expression, from, end, [](char c) { return !is_space(c) && c != '&'; });
  };
  while (true) {
    PartSyntax part;
    part.expression_ = expression;
    at = skip(expression, at, end, is_space);
    std::size_t stop = word_end(at);
    if (stop == at || is_digit(expression[at])) {
      fail(expression, at, "an algorithm's name is missing here (token_bucket 100/1s)");
    }
    if (parts.size() == kMaxParts) {
      fail(expression, at, "at most " + std::to_string(kMaxParts) + " limits can be joined by &");
    }
    part.algorithm_ = expression.substr(at, stop - at);

    at = skip(expression, stop, end, is_space);
    stop = word_end(at);
    const std::size_t slash = std::min(expression.find('/', at), stop);
    part.count_text_ = expression.substr(at, slash - at);
    if (slash != at) part.count_ = parse_number(expression, at, slash, 1, kMaxCount);
    if (slash < stop) {
      part.duration_text_ = expression.substr(slash + 1, stop - slash - 1);
      part.duration_ns_ = parse_duration(expression, slash + 1, stop);
    }

    for (at = skip(expression, stop, end, is_space); at < end && expression[at] != '&';
         at = skip(expression, stop, end, is_space)) {
      stop = word_end(at);
      const std::size_t equals = std::min(expression.find('=', at), stop);
      if (equals == stop) fail(expression, at, "an option is written name=value");
      const auto name = expression.substr(at, equals - at);
      for (const auto& other : part.options_) {
        if (other.name == name) fail(expression, at, "'" + std::string(name) + "' is given twice");
      }
      part.options_.push_back({name, expression.substr(equals + 1, stop - equals - 1)});
    }
    parts.push_back(std::move(part));
    if (at == end) return parts;
    ++at;  // the '&'
  }
}

}  // namespace sluice
