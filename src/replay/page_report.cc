#include "replay/page_report.h"

#include <boost/unordered/unordered_flat_map.hpp>
#include <utility>

#include "pages/pages.h"
#include "replay/json_writer.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

std::string page_key(std::string_view key) {
  return printable(key, kPageKeyColumns);
}

struct KeyTimeline {
  std::string key;
  Timeline timeline;
};

class Page {
 public:
  explicit Page(const PageContents& contents)
      : contents_(contents),
        limits_(contents.tally.expressions().size()),
        steps_(contents.charts.steps()),
        all_(contents.charts.all()),
        summary_(contents.tally.summary(kMostDeniedOnPage)) {
    for (LimitSummary& limit : summary_.limits) {
      std::vector<std::size_t>& timelines = timelines_of_limits_.emplace_back();
      for (KeyCount& count : limit.most_denied) {
        timelines.push_back(timeline_of(count));
        count.key = page_key(count.key);
      }
    }
  }

  std::string json(std::size_t max_bytes) {
    const std::string head = pages::escaped(everything_else());
    while (true) {
      std::string all = head + pages::escaped(timelines()) + "}";
      if (all.size() <= max_bytes || all_.steps().size() <= 1) return all;
      widen_timelines();
    }
  }

 private:
  /// The index of the key's timeline, which may be new.
  std::size_t timeline_of(const KeyCount& count) {
    const auto [listed, is_new] = listed_.try_emplace(count.id, timelines_.size());
    if (is_new) {
      const Timeline* timeline = contents_.charts.of(count.id);
      timelines_.push_back({page_key(count.key), timeline == nullptr ? Timeline() : *timeline});
    }
    return listed->second;
  }

  /// A member that is an array with the value that write(limit) adds for each limit.
  template <class Write>
  void for_each_limit(JsonWriter& json, std::string_view name, const Write& write) {
    json.open(name, '[');
    for (std::size_t limit = 0; limit < limits_; ++limit) write(limit);
    json.close(']');
  }

  void widen_timelines() {
    const std::int64_t factor = steps_.next_factor();
    steps_.widen();
    all_.widen(factor);
    for (KeyTimeline& key : timelines_) key.timeline.widen(factor);
  }

  std::string everything_else() {
    JsonWriter json(JsonWriter::Layout::kCompact);
    json.open('{');
    json.add("command", contents_.command);
    json.name("report");
    LogSummary log = contents_.log;
    log.key = printable(log.key, kTypedColumns);
    write_report(json, summary_, log);
    for_each_limit(json, "shares", [&](std::size_t limit) {
      json.add_numbers(contents_.tally.shares(limit), [](std::uint64_t keys) { return keys; });
    });
    write_differences(json);
    for_each_limit(json, "sweep", [&](std::size_t limit) { write_sweep(json, limit); });
    for_each_limit(json, "timelines", [&](std::size_t limit) {
      json.add_numbers(timelines_of_limits_[limit], [](std::size_t timeline) { return timeline; });
    });
    json.name("step_ns");
    return std::move(json).text();
  }

  /// What follows the name "step_ns": the width of all steps, and the timelines.
  std::string timelines() {
    JsonWriter json(JsonWriter::Layout::kCompact);
    json.add(steps_.width_ns());
    json.open("timeline", '{');
    write_steps(json, all_, false);
    json.close('}');
    json.add_objects("keys", timelines_, [&](const KeyTimeline& key) {
      json.add("key", key.key);
      write_steps(json, key.timeline, true);
    });
    return std::move(json).text();
  }

  /// The steps as columns: their numbers, the requests, and for each limit the denied requests and,
  /// if wanted, the levels.
  void write_steps(JsonWriter& json, const Timeline& timeline, bool with_levels) {
    const auto& steps = timeline.steps();
    json.name("steps");
    json.add_numbers(steps, [](const StepCounts& at) { return at.step; });
    json.name("requests");
    json.add_numbers(steps, [](const StepCounts& at) { return at.requests; });
    for_each_limit(json, "denied", [&](std::size_t limit) {
      json.add_numbers(steps, [&](const StepCounts& at) { return at.denied[limit]; });
    });
    if (!with_levels) return;
    for_each_limit(json, "level", [&](std::size_t limit) {
      json.add_numbers(steps, [&](const StepCounts& at) { return at.level[limit]; });
    });
  }

  /// For each ordered pair of limits, what the second denies and the first does not.
  void write_differences(JsonWriter& json) {
    json.open("differences", '[');
    for (std::size_t a = 0; a < limits_; ++a) {
      for (std::size_t b = 0; b < limits_; ++b) {
        if (a != b) write_difference(json, a, b);
      }
    }
    json.close(']');
  }

  void write_difference(JsonWriter& json, std::size_t a, std::size_t b) {
    LimitSummary difference = contents_.tally.only_denied(b, a);
    json.open('{');
    json.add("admits", a);
    json.add("denies", b);
    json.add("requests", contents_.charts.only_denied_by(b, a));
    json.add("keys", difference.keys_limited);
    for (KeyCount& count : difference.most_denied) count.key = page_key(count.key);
    write_most_denied(json, difference);
    json.close('}');
  }

  /// Its result, or null if there is none.
  void write_sweep(JsonWriter& json, std::size_t limit) {
    const auto result = contents_.sweep.result(limit);
    if (!result) return json.add(nullptr);
    json.open('{');
    json.add("keys", result->keys);
    json.add("is_sample", result->is_sample);
    json.add_objects("points", result->points, [&](const SweepPoint& point) {
      json.add("percent", point.percent);
      json.add("limit_expr", point.expression);
      json.add("keys_limited", point.keys_limited);
    });
    json.close('}');
  }

  const PageContents& contents_;
  std::size_t limits_;
  TimeSteps steps_;
  Timeline all_;
  Summary summary_;
  std::vector<KeyTimeline> timelines_;
  /// The index of a key's timeline.
  boost::unordered_flat_map<Tally::KeyId, std::size_t> listed_;
  /// For each limit the timelines of the keys that it denies most.
  std::vector<std::vector<std::size_t>> timelines_of_limits_;
};

}  // namespace

std::string page_report(const PageContents& contents) {
  const std::string_view page = pages::report_page();
  return pages::filled(page, Page(contents).json(kMaxPageBytes - page.size()));
}

}  // namespace sluice::replay
