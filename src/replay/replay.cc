#include "replay/replay.h"

#include <memory>
#include <optional>
#include <ostream>

#include "algorithms/limit_definition.h"
#include "replay/charts.h"
#include "replay/command_line.h"
#include "replay/feed.h"
#include "replay/inputs.h"
#include "replay/judge.h"
#include "replay/output_file.h"
#include "replay/page_report.h"
#include "replay/progress.h"
#include "replay/report.h"
#include "replay/sweep.h"
#include "replay/text.h"
#include "replay/text_plot.h"
#include "replay/time_order.h"
#include "stores/stores.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kTitleColumns = 100;

std::vector<NamedLimit> read_limits(const std::vector<std::string>& expressions) {
  if (expressions.empty()) {
    throw ReplayError(kMisused,
                      "a limit to judge by is missing, for example --limit 'token_bucket 10/1m'");
  }
  if (expressions.size() > kMaxLimits) {
    throw ReplayError(kMisused, "--limit: more than " + std::to_string(kMaxLimits) + " limits");
  }
  std::vector<NamedLimit> limits;
  for (const std::string& expression : expressions) {
    Limit limit = [&] {
      try {
        return Limit(expression);
      } catch (const InvalidLimit& error) {
        throw ReplayError(kMisused, std::string("--limit: ") + error.what());
      }
    }();
    for (const NamedLimit& other : limits) {
      if (other.limit.expression() != limit.expression()) continue;
      throw ReplayError(kMisused, "--limit: \"" + printable(expression, kTypedColumns) +
                                      "\" is given twice (both mean " + limit.expression() + ")");
    }
    limits.push_back({expression, std::move(limit)});
  }
  return limits;
}

/// Null if neither a page nor a plot is wanted.
std::unique_ptr<Charts> make_charts(const ReplayOptions& options, std::size_t limits) {
  if (options.html.empty() && !options.has_plot) return nullptr;
  if (options.has_plot && options.is_json) {
    throw ReplayError(kMisused, "--plot: it belongs to the tables, and --json prints none");
  }
  if (limits > kMaxCharted) {
    const std::string who = options.html.empty() ? "--plot: a plot" : "--html: a page";
    throw ReplayError(kMisused, who + " shows at most " + std::to_string(kMaxCharted) + " limits");
  }
  return std::make_unique<Charts>(limits);
}

/// What a replay with --html collects besides the charts, and where it goes.
struct PageOutput {
  std::unique_ptr<OutputFile> file;
  Sweep sweep;
};

std::optional<PageOutput> open_page(const ReplayOptions& options,
                                    const std::vector<NamedLimit>& limits,
                                    const std::vector<Input>& inputs) {
  auto file = open_output("--html", "the page", options.html, inputs);
  if (!file) return std::nullopt;
  std::vector<Limit> swept;
  for (const NamedLimit& named : limits) swept.push_back(named.limit);
  return PageOutput{.file = std::move(file), .sweep = Sweep(swept)};
}

void refuse_one_file(const ReplayOptions& options) {
  if (!is_one_file(options.html, options.decisions)) return;
  throw ReplayError(
      kMisused, "--html: " + printable(options.html, kTypedColumns) + " is also for the decisions");
}

/// Says how many requests could not be put into the order of time.
void warn_of_late(const TimeOrder& order, std::ostream& err) {
  if (order.late() == 0) return;
  err << "sluice replay: " << count_of(order.late(), "request")
      << (order.late() == 1 ? " comes" : " come") << " too late, by up to "
      << format_duration(order.most_late_ns())
      << ": too many later ones were read before, and limits take late requests for bursts; sort "
         "the lines of each file by time first\n";
}

std::shared_ptr<Store> open_virtual_store(const std::string& url) {
  try {
    return open_bare_store(url, {.virtual_time = true});
  } catch (const StoreError& error) {
    throw ReplayError(kMisused, std::string("--store: ") + error.what());
  }
}

void print(const std::string& text, std::ostream& out) {
  if (!(out << text << std::flush)) {
    throw ReplayError(kFailed, "the summary cannot be written");
  }
}

/// Writes the page, if there is one, and the summary.
void report(const ReplayOptions& options, const Streams& streams, const Tally& tally,
            const Feed& feed, const TimeOrder& order, const Charts* charts,
            const std::optional<PageOutput>& page) {
  const Summary summary = tally.summary();
  if (summary.requests == 0 && feed.unreadable() > 0) {
    throw ReplayError(kFailed, "not one line of the input could be read");
  }
  const ReportContext context{.key = feed.keys_used(),
                              .unreadable = feed.unreadable(),
                              .late = order.late(),
                              .most_late_ns = order.most_late_ns()};
  if (page) {
    write_page(*page->file, options.html,
               page_report({.tally = tally,
                            .charts = *charts,
                            .sweep = page->sweep,
                            .context = context,
                            .command = command_line(options)}));
  }
  const bool is_taken = options.decisions == "-" || options.html == "-";
  std::string text = options.is_json ? json_report(summary, context)
                                     : table_report(summary, context, streams.is_coloured);
  if (options.has_plot) {
    for (std::size_t i = 0; i < summary.limits.size(); ++i) {
      text += text_plot(printable(summary.limits[i].expression, kTitleColumns),
                        denied_over_time(*charts, i), streams.is_coloured);
    }
  }
  print(text, is_taken ? streams.err : streams.out);
}

int replay_all(const ReplayOptions& options, const Streams& streams) {
  std::vector<NamedLimit> limits = read_limits(options.limits);
  for (const NamedLimit& named : limits) {
    const std::string warning = named.limit.warning();
    if (!warning.empty()) streams.err << "sluice replay: " << warning << '\n';
  }
  FeedOptions feed_options{.command = "sluice replay",
                           .key = read_key(options.key, options.format),
                           .format = options.format,
                           .is_strict = options.is_strict};
  for (const NamedLimit& named : limits) {
    if (!lends(named.limit.definition())) continue;
    feed_options.permit_limit = printable(named.expression, kTypedColumns);
    break;
  }
  const auto charts = make_charts(options, limits.size());
  auto store = open_virtual_store(options.store);
  const std::vector<Input> inputs = find_inputs(options.files);
  refuse_one_file(options);
  const auto decisions = open_output("--decisions", "the decisions", options.decisions, inputs);
  refuse_one_file(options);  // A link may have led to a file that is there only now.
  const auto writer = decisions ? std::make_unique<DecisionWriter>(*decisions) : nullptr;
  auto page = open_page(options, limits, inputs);
  Progress progress(streams.progress_descriptor, total_bytes(inputs));
  Judge judge(
      std::move(store), std::move(limits),
      {.writer = writer.get(), .charts = charts.get(), .sweep = page ? &page->sweep : nullptr});
  TimeOrder order(judge);
  Feed feed(std::move(feed_options), order, streams.err, progress);
  try {
    try {
      feed.read(inputs);
    } catch (const ReplayError&) {
      order.flush();  // The requests up to here are decided.
      throw;
    }
    order.flush();
  } catch (const std::exception&) {
    if (writer) writer->finish();  // With the decisions that were made.
    progress.clear();
    warn_of_late(order, streams.err);
    throw;
  }
  if (writer) writer->finish();
  progress.clear();
  report(options, streams, judge.tally(), feed, order, charts.get(), page);
  warn_of_late(order, streams.err);
  return feed.is_damaged() ? kFailed : 0;
}

}  // namespace

int run_replay(const ReplayOptions& options, const Streams& streams) {
  int status = kFailed;
  std::string sentence;
  try {
    status = replay_all(options, streams);
  } catch (const ReplayError& error) {
    status = error.status();
    sentence = error.what();
  } catch (const std::exception& error) {
    sentence = error.what();
  }
  if (!sentence.empty()) streams.err << "sluice replay: " << sentence << '\n' << std::flush;
  return status;
}

}  // namespace sluice::replay
