#include "replay/replay.h"

#include <memory>
#include <optional>

#include "algorithms/limit_definition.h"
#include "core/exit_status.h"
#include "replay/charts.h"
#include "replay/command_line.h"
#include "replay/feed.h"
#include "replay/inputs.h"
#include "replay/judge.h"
#include "replay/output_file.h"
#include "replay/page_report.h"
#include "replay/report.h"
#include "replay/sweep.h"
#include "replay/text.h"
#include "replay/text_plot.h"
#include "stores/stores.h"

namespace sluice::replay {
namespace {

constexpr std::string_view kCommand = "sluice replay";
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
                                    const std::vector<Input>& inputs, const OutputFile* decisions) {
  auto file = open_output("--html", "the page", options.html, inputs, decisions);
  if (!file) return std::nullopt;
  std::vector<Limit> swept;
  for (const NamedLimit& named : limits) swept.push_back(named.limit);
  return PageOutput{.file = std::move(file), .sweep = Sweep(swept)};
}

std::shared_ptr<Store> open_virtual_store(const std::string& url) {
  try {
    return open_bare_store(url, {.virtual_time = true});
  } catch (const StoreError& error) {
    throw ReplayError(kMisused, std::string("--store: ") + error.what());
  }
}

/// Writes the page, if there is one, and the summary.
void report(const ReplayOptions& options, const Streams& streams, const Tally& tally,
            const LogSummary& log, const Charts* charts, const std::optional<PageOutput>& page) {
  const Summary summary = tally.summary();
  if (page) {
    write_page(*page->file, page_report({.tally = tally,
                                         .charts = *charts,
                                         .sweep = page->sweep,
                                         .log = log,
                                         .command = command_line(options)}));
  }
  const bool is_taken = options.decisions == "-" || options.html == "-";
  std::string text =
      options.is_json ? json_report(summary, log) : table_report(summary, log, streams.is_coloured);
  if (options.has_plot) {
    for (std::size_t i = 0; i < summary.limits.size(); ++i) {
      text += text_plot(printable(summary.limits[i].expression, kTitleColumns),
                        denied_over_time(*charts, i), streams.is_coloured);
    }
  }
  print("the summary", text, is_taken ? streams.err : streams.out);
}

/// The first limit that lends permits, for messages; empty if there is none.
std::string first_permit_limit(const std::vector<NamedLimit>& limits) {
  for (const NamedLimit& named : limits) {
    if (lends(named.limit.definition())) return printable(named.expression, kTypedColumns);
  }
  return "";
}

int replay_all(const ReplayOptions& options, const Streams& streams) {
  std::vector<NamedLimit> limits = read_limits(options.limits);
  for (const NamedLimit& named : limits) {
    const std::string warning = named.limit.warning();
    if (!warning.empty()) streams.err << kCommand << ": " << warning << '\n';
  }
  const std::string permit_limit = first_permit_limit(limits);
  const auto charts = make_charts(options, limits.size());
  auto store = open_virtual_store(options.store);
  const Logs logs = find_logs(options.log);
  const auto decisions =
      open_output("--decisions", "the decisions", options.decisions, logs.inputs);
  auto page = open_page(options, limits, logs.inputs, decisions.get());
  if (decisions) decisions->clear();
  if (page) page->file->clear();
  const auto writer = decisions ? std::make_unique<DecisionWriter>(*decisions) : nullptr;
  Judge judge(
      std::move(store), std::move(limits),
      {.writer = writer.get(), .charts = charts.get(), .sweep = page ? &page->sweep : nullptr});
  Feed feed(kCommand, logs, judge, streams);
  feed.warn_of_cost(permit_limit);
  try {
    feed.read();
  } catch (const std::exception&) {
    if (writer) writer->finish();  // With the decisions that were made.
    feed.warn_of_late();
    throw;
  }
  if (writer) writer->finish();
  const LogSummary log = feed.summary();
  report(options, streams, judge.tally(), log, charts.get(), page);
  feed.warn_of_late();
  return log.is_damaged ? kFailed : 0;
}

}  // namespace

int run_replay(const ReplayOptions& options, const Streams& streams) {
  return run_command(kCommand, streams.err, [&] { return replay_all(options, streams); });
}

}  // namespace sluice::replay
