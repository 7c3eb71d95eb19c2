#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

#include "advise/advice_report.h"
#include "core/safe_text.h"
#include "replay/report.h"
#include "replay/text.h"

namespace sluice::advise {
namespace {

using replay::count_of;
using replay::grouped;
using replay::kBold;
using replay::kFaint;
using replay::padded_left;
using replay::padded_right;
using replay::percent;
using replay::styled;

constexpr std::size_t kColumns = 100;
constexpr std::size_t kLimitColumns = 30;
constexpr std::size_t kNumber = 11;

/// A limit, or that the algorithm has none that would do.
std::string limit_text(std::int64_t limit) {
  return limit >= kMaxCount ? "none" : grouped(static_cast<std::uint64_t>(limit));
}

/// A column of numbers, which begins with a space however long the number is.
std::string cell(std::string_view text, std::size_t columns = kNumber) {
  return ' ' + padded_left(text, columns - 1);
}

class AdviceText {
 public:
  AdviceText(const Advice& advice, std::string_view replay, bool is_coloured)
      : advice_(advice), replay_(replay), is_coloured_(is_coloured) {}

  std::string text() && {
    out_ = replay::heading(advice_.log, std::string(" of ") + (advice_.is_sample ? "about " : "") +
                                            count_of(advice_.keys, "key"));
    if (!advice_.suggestions.empty()) {
      if (!advice_.burstiness.empty()) bursts();
      limits();
      hit_first();
      suggestions();
    }
    if (!advice_.unknowns.empty()) cannot_know();
    return std::move(out_);
  }

 private:
  void line(const std::string& text = {}) {
    out_ += text;
    while (out_.ends_with(' ')) out_.pop_back();
    out_ += '\n';
  }

  void title(const std::string& text) {
    line();
    line(styled(text, kBold, is_coloured_));
  }

  /// Breaks full sentences into lines, between words.
  void paragraph(const std::string& text, std::size_t indent) {
    const std::string margin(indent, ' ');
    std::istringstream words(text);
    std::string row;
    for (std::string word; words >> word; row += word) {
      if (row.empty()) continue;
      if (indent + row.size() + 1 + word.size() > kColumns) {
        line(margin + row);
        row.clear();
      } else {
        row += ' ';
      }
    }
    if (!row.empty()) line(margin + row);
  }

  void bursts() {
    title("What keys ask for: units in any window of this length");
    line(styled(padded_right("  window", kLimitColumns) + cell("half") + cell("90 %") +
                    cell("99 %") + cell("most"),
                kFaint, is_coloured_));
    for (const Burstiness& window : advice_.burstiness) {
      line(padded_right("  " + replay::rough_duration(window.window_ns), kLimitColumns) +
           cell(limit_text(window.half)) + cell(limit_text(window.nine_tenths)) +
           cell(limit_text(window.all_but_hundredth)) + cell(limit_text(window.most)));
    }
    paragraph(
        "Half of the keys never ask for more than the first number, 90 % of them never for "
        "more than the second. Numbers above 300 are counted in windows that may be up to a tenth "
        "longer.",
        2);
  }

  void limits() {
    title("The limit at which this share would be denied");
    line(styled(padded_right({}, kLimitColumns) + padded_left("of keys", 3 * kNumber) +
                    padded_left("of requests", 3 * kNumber),
                kFaint, is_coloured_));
    std::string shares = padded_right("  L", kLimitColumns);
    for (int i = 0; i < 2; ++i) {
      for (const char* share : {"5 %", "1 %", "0.1 %"}) shares += cell(share);
    }
    line(styled(shares, kFaint, is_coloured_));
    for (const FamilyAdvice& family : advice_.families) {
      std::string row = padded_right("  " + family.expression, kLimitColumns);
      for (const std::int64_t limit : family.keys) row += cell(limit_text(limit));
      for (const std::int64_t limit : family.requests) row += cell(limit_text(limit));
      line(row);
    }
    paragraph(
        "A key counts as denied if any of its requests is. The limits for requests are of "
        "the series 1 2 3 5 7 10 15 20 30 50 70 100 and so on (a queue is one less). A "
        "sliding_log keeps every admitted instant, so only limits up to 300 are tried.",
        2);
  }

  std::string share_of(std::uint64_t part, std::uint64_t whole) const {
    return padded_left(percent(std::min(part, whole), whole), 9);
  }

  void hit_first() {
    const FamilyInfo& info = limit_families().info[advice_.balanced_family];
    title("The keys that " + info.pattern() + " would hit first");
    line(styled(padded_left("needs L", 10) + cell("requests") + cell("in a minute", 13) +
                    padded_left("4xx", 9) + padded_left("5xx", 9) +
                    "   key, its most frequent user agent and path",
                kFaint, is_coloured_));
    for (const HitKey& hit : advice_.hit_first) {
      std::string row = padded_left(limit_text(hit.needs), 10) + cell(grouped(hit.requests)) +
                        cell(limit_text(hit.busiest_minute), 13);
      row += advice_.has_status ? share_of(hit.client_errors, hit.requests) +
                                      share_of(hit.server_errors, hit.requests)
                                : padded_left("-", 9) + padded_left("-", 9);
      line(row + "   " + printable(hit.key, kColumns - 55));
      frequent(hit.user_agent, hit.user_agent_requests, hit.requests);
      frequent(hit.path, hit.path_requests, hit.requests);
    }
  }

  /// A text and the least share of the requests that have it.
  void frequent(const std::string& text, std::uint64_t at_least, std::uint64_t requests) {
    constexpr std::uint64_t kWorthShowing = 10;
    if (text.empty() || at_least * kWorthShowing < requests) return;
    line(std::string(55, ' ') + printable(text, kColumns - 55 - 10) + ' ' +
         percent(std::min(at_least, requests), requests));
  }

  void suggestions() {
    title("Start with one of these");
    for (const Suggestion& suggestion : advice_.suggestions) {
      line();
      line("  " + padded_right(suggestion.name, 10) +
           styled(suggestion.expression, kBold, is_coloured_));
      const std::string about = advice_.is_sample ? "about " : "";
      paragraph("Would have denied " + about + count_of(suggestion.requests_denied, "request") +
                    " (" +
                    percent(std::min(suggestion.requests_denied, advice_.log.requests),
                            advice_.log.requests) +
                    ") of " + about + count_of(suggestion.keys_denied, "key") + " (" +
                    percent(suggestion.keys_denied, advice_.keys) + "). " + suggestion.reason,
                12);
    }
    line();
    line("  See what one of them does:");
    line("    " + std::string(replay_) + " --limit '" + advice_.suggestions[1].expression + "'");
  }

  void cannot_know() {
    title("What this cannot know");
    for (const std::string& sentence : advice_.unknowns) paragraph(sentence, 2);
  }

  const Advice& advice_;
  std::string_view replay_;
  bool is_coloured_;
  std::string out_;
};

}  // namespace

std::string advice_text(const Advice& advice, std::string_view replay, bool is_coloured) {
  return AdviceText(advice, replay, is_coloured).text();
}

}  // namespace sluice::advise
