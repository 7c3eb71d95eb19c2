#include "replay/page_report.h"

#include <boost/unordered/unordered_flat_set.hpp>
#include <utility>

#include "pages/pages.h"
#include "replay/differences.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kCommandColumns = 2000;

std::string page_key(std::string_view key) {
  return printable(key, kPageKeyColumns);
}

/// A timeline of a key, its steps perhaps wider than those of the charts.
struct KeyTimeline {
  std::string key;
  Timeline timeline;
};

/// Writes JSON without spaces.
class Json {
 public:
  void text(std::string_view text) {
    separate();
    append_json_string(out_, text);
  }
  template <class Number>
  void number(Number number) {
    separate();
    append_number(out_, number);
  }
  void name(std::string_view name) {
    text(name);
    out_ += ':';
    is_first_ = true;
  }
  void raw(std::string_view json) {
    separate();
    out_ += json;
  }
  void open(char bracket) {
    separate();
    out_ += bracket;
    is_first_ = true;
  }
  void close(char bracket) {
    out_ += bracket;
    is_first_ = false;
  }

  /// A list with what number_of() makes of each item.
  template <class Items, class NumberOf>
  void numbers(const Items& items, const NumberOf& number_of) {
    open('[');
    for (const auto& item : items) number(number_of(item));
    close(']');
  }

  std::string& out() { return out_; }

 private:
  void separate() {
    if (!std::exchange(is_first_, false)) out_ += ',';
  }

  std::string out_;
  bool is_first_ = true;
};

class Page {
 public:
  explicit Page(const PageContents& contents)
      : contents_(contents),
        limits_(contents.tally.expressions().size()),
        steps_(contents.charts.steps()),
        key_steps_(steps_),
        summary_(contents.tally.summary(kMostDeniedOnPage)) {
    for (LimitSummary& limit : summary_.limits) {
      for (KeyCount& count : limit.most_denied) {
        add_key(count);
        count.key = page_key(count.key);
      }
    }
  }

  std::string json(std::size_t max_bytes) {
    const std::string head = pages::escaped(everything_else());
    while (true) {
      std::string all = head + pages::escaped(timelines_of_keys()) + "}";
      if (all.size() <= max_bytes || !widen_timelines()) return all;
    }
  }

 private:
  void add_key(const KeyCount& count) {
    if (!listed_.insert(count.id).second) return;
    const Timeline* timeline = contents_.charts.of(count.id);
    timelines_.push_back({page_key(count.key), timeline == nullptr ? Timeline() : *timeline});
  }

  /// Halves the steps of the keys' timelines, or more. False if that makes no difference.
  bool widen_timelines() {
    std::size_t before = 0;
    std::size_t after = 0;
    const std::int64_t factor = key_steps_.next_factor();
    key_steps_.widen();
    for (KeyTimeline& key : timelines_) {
      before += key.timeline.steps().size();
      key.timeline.widen(factor);
      after += key.timeline.steps().size();
    }
    return after < before || after > timelines_.size();
  }

  std::string everything_else() {
    Json json;
    json.open('{');
    json.name("command");
    json.text(printable(contents_.command, kCommandColumns));
    json.name("report");
    std::string report =
        json_report(summary_, {.key = printable(contents_.context.key, kTypedColumns),
                               .unreadable = contents_.context.unreadable});
    report.pop_back();
    json.raw(report);
    json.name("timeline");
    json.open('{');
    write_steps(json, steps_, contents_.charts.all(), false);
    json.close('}');
    json.name("shares");
    json.open('[');
    for (std::size_t limit = 0; limit < limits_; ++limit) {
      json.numbers(share_histogram(contents_.tally, limit),
                   [](std::uint64_t keys) { return keys; });
    }
    json.close(']');
    write_differences(json);
    write_sweep(json);
    json.name("keys");
    return std::move(json.out());
  }

  std::string timelines_of_keys() {
    Json json;
    json.open('[');
    for (const KeyTimeline& key : timelines_) {
      json.open('{');
      json.name("key");
      json.text(key.key);
      write_steps(json, key_steps_, key.timeline, true);
      json.close('}');
    }
    json.close(']');
    return std::move(json.out());
  }

  /// The steps as columns: their numbers, the requests, and for each limit the denied requests and,
  /// if wanted, the levels.
  void write_steps(Json& json, const TimeSteps& width, const Timeline& timeline, bool with_levels) {
    const auto& steps = timeline.steps();
    json.name("step_ns");
    json.number(width.width_ns());
    json.name("steps");
    json.numbers(steps, [](const StepCounts& at) { return at.step; });
    json.name("requests");
    json.numbers(steps, [](const StepCounts& at) { return at.requests; });
    json.name("denied");
    json.open('[');
    for (std::size_t limit = 0; limit < limits_; ++limit) {
      json.numbers(steps, [&](const StepCounts& at) { return at.denied[limit]; });
    }
    json.close(']');
    if (!with_levels) return;
    json.name("level");
    json.open('[');
    for (std::size_t limit = 0; limit < limits_; ++limit) {
      json.numbers(steps, [&](const StepCounts& at) { return at.level[limit]; });
    }
    json.close(']');
  }

  /// For each ordered pair of limits, what the second denies and the first does not.
  void write_differences(Json& json) {
    json.name("differences");
    json.open('[');
    for (std::size_t a = 0; a < limits_; ++a) {
      for (std::size_t b = 0; b < limits_; ++b) {
        if (a != b) write_difference(json, a, b);
      }
    }
    json.close(']');
  }

  void write_difference(Json& json, std::size_t a, std::size_t b) {
    const Difference difference = only_denied(contents_.tally, b, a);
    json.open('{');
    json.name("admits");
    json.number(std::uint64_t{a});
    json.name("denies");
    json.number(std::uint64_t{b});
    json.name("requests");
    json.number(contents_.charts.only_denied_by(b, a));
    json.name("keys");
    json.number(difference.keys);
    json.name("most_denied");
    json.open('[');
    for (const KeyDifference& key : difference.most_denied) {
      json.open('{');
      json.name("key");
      json.text(page_key(key.key));
      json.name("denied");
      json.number(key.denied);
      json.name("requests");
      json.number(key.requests);
      json.close('}');
    }
    json.close(']');
    json.close('}');
  }

  /// For each limit its result, or null if there is none.
  void write_sweep(Json& json) {
    json.name("sweep");
    json.open('[');
    for (std::size_t limit = 0; limit < limits_; ++limit) {
      if (const auto result = contents_.sweep.result(limit)) {
        write_result(json, *result);
      } else {
        json.raw("null");
      }
    }
    json.close(']');
  }

  static void write_result(Json& json, const SweepResult& result) {
    json.open('{');
    json.name("keys");
    json.number(result.keys);
    json.name("is_sample");
    json.raw(result.is_sample ? "true" : "false");
    json.name("points");
    json.open('[');
    for (const SweepPoint& point : result.points) {
      json.open('{');
      json.name("percent");
      json.number(std::int64_t{point.percent});
      json.name("limit_expr");
      json.text(point.expression);
      json.name("keys_limited");
      json.number(point.keys_limited);
      json.close('}');
    }
    json.close(']');
    json.close('}');
  }

  const PageContents& contents_;
  std::size_t limits_;
  TimeSteps steps_;
  TimeSteps key_steps_;
  Summary summary_;
  boost::unordered_flat_set<Tally::KeyId> listed_;
  std::vector<KeyTimeline> timelines_;
};

}  // namespace

std::string page_json(const PageContents& contents, std::size_t max_bytes) {
  return Page(contents).json(max_bytes);
}

std::string page_report(const PageContents& contents) {
  const std::string_view page = pages::report_page();
  return pages::filled(page, page_json(contents, kMaxPageBytes - page.size()));
}

}  // namespace sluice::replay
