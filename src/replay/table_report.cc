#include <array>

#include "replay/report.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kLabelColumns = 16;
constexpr std::size_t kNumberColumns = 12;
constexpr std::size_t kLimitedColumns = 15;
constexpr std::string_view kGap = "   ";
/// The columns that are left for a key after its numbers.
constexpr std::size_t kKeyColumns = kColumns - kLabelColumns - 2 * kNumberColumns - kGap.size();
constexpr std::size_t kExpressionColumns = kColumns - 3 * kNumberColumns - kLimitedColumns;

/// Of "2015-05-19 09:05:31".
constexpr std::size_t kMinuteCharacters = 16;

class Table {
 public:
  Table(const Summary& summary, const LogSummary& log, bool is_coloured)
      : summary_(summary), log_(log), is_coloured_(is_coloured) {}

  std::string text() && {
    out_ = heading(log_, "");
    for (const LimitSummary& limit : summary_.limits) one_limit(limit);
    if (summary_.limits.size() > 1) side_by_side();
    return std::move(out_);
  }

 private:
  void line(const std::string& text) {
    out_ += text;
    while (out_.ends_with(' ')) out_.pop_back();
    out_ += '\n';
  }

  static std::string number(std::uint64_t count) {
    return padded_left(grouped(count), kNumberColumns);
  }

  std::string denied_number(std::uint64_t denied, std::size_t columns) const {
    const std::string text = padded_left(grouped(denied), columns);
    return denied == 0 ? text : styled(text, kRed, is_coloured_);
  }

  /// A row of a limit's table; `padded` is its number.
  void row(std::string_view label, const std::string& padded, const std::string& rest) {
    line(padded_right("  " + std::string(label), kLabelColumns) + padded + rest);
  }

  static std::string share(std::uint64_t part, std::uint64_t whole) {
    return padded_left(percent(part, whole), kNumberColumns);
  }

  void one_limit(const LimitSummary& limit) {
    const std::uint64_t requests = log_.requests;
    out_ += '\n';
    line(styled(printable(limit.expression, kColumns), kBold, is_coloured_));
    row("requests", number(requests), "");
    row("admitted", number(requests - limit.denied), "");
    row("denied", denied_number(limit.denied, kNumberColumns), share(limit.denied, requests));
    row("keys seen", number(summary_.keys_seen), "");
    row("keys limited", number(limit.keys_limited), share(limit.keys_limited, summary_.keys_seen));
    if (!limit.worst_minute) {
      row("worst minute", padded_left("-", kNumberColumns), "");
      return;
    }
    row("worst minute", denied_number(limit.worst_minute->denied, kNumberColumns),
        std::string(kGap) + "denied in " +
            utc_second(limit.worst_minute->start_ns).substr(0, kMinuteCharacters) + " UTC");
    out_ += '\n';
    line(styled(padded_left("denied", kLabelColumns) + padded_left("requests", kNumberColumns) +
                    padded_left("share", kNumberColumns) + std::string(kGap) + "denied most",
                kFaint, is_coloured_));
    for (const KeyCount& count : limit.most_denied) {
      line(denied_number(count.denied, kLabelColumns) + number(count.requests) +
           share(count.denied, count.requests) + std::string(kGap) +
           printable(count.key, kKeyColumns));
    }
  }

  void side_by_side() {
    out_ += '\n';
    line(styled(padded_right("side by side", kExpressionColumns) +
                    padded_left("admitted", kNumberColumns) +
                    padded_left("denied", kNumberColumns) + padded_left("share", kNumberColumns) +
                    padded_left("keys limited", kLimitedColumns),
                kFaint, is_coloured_));
    for (const LimitSummary& limit : summary_.limits) {
      line(padded_right(printable(limit.expression, kExpressionColumns - 1), kExpressionColumns) +
           number(log_.requests - limit.denied) + denied_number(limit.denied, kNumberColumns) +
           share(limit.denied, log_.requests) +
           padded_left(grouped(limit.keys_limited), kLimitedColumns));
    }
  }

  const Summary& summary_;
  const LogSummary& log_;
  bool is_coloured_;
  std::string out_;
};

}  // namespace

std::string heading(const LogSummary& log, const std::string& of_keys) {
  std::string out = count_of(log.requests, "request") + of_keys;
  if (log.requests > 0) {
    out += ", " + utc_second(log.first_ns) + " to " + utc_second(log.last_ns) + " UTC";
  }
  out += '\n';
  if (!log.key.empty()) out += "key " + printable(log.key, kColumns - 4) + '\n';
  if (log.unreadable > 0) out += count_of(log.unreadable, "line") + " could not be read\n";
  return out;
}

std::string table_report(const Summary& summary, const LogSummary& log, bool is_coloured) {
  return Table(summary, log, is_coloured).text();
}

}  // namespace sluice::replay
