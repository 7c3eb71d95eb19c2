#include "advise/advise.h"

#include <ostream>

#include "advise/advice.h"
#include "advise/advice_report.h"
#include "core/safe_text.h"
#include "pages/pages.h"
#include "replay/command_line.h"
#include "replay/feed.h"
#include "replay/inputs.h"
#include "replay/output_file.h"
#include "replay/page_report.h"
#include "replay/progress.h"
#include "replay/text.h"
#include "replay/time_order.h"

namespace sluice::advise {
namespace {

using replay::ReplayError;

/// For the page, whose keys are cut as those of the report: a log may have keys of a megabyte. The
/// other texts have room for the user agent of a browser.
Advice shortened(Advice advice) {
  for (HitKey& hit : advice.hit_first) {
    hit.key = printable(hit.key, replay::kPageKeyColumns);
    hit.user_agent = printable(hit.user_agent, replay::kTypedColumns);
    hit.path = printable(hit.path, replay::kTypedColumns);
  }
  return advice;
}

int advise_all(const AdviseOptions& options, const replay::Streams& streams) {
  replay::FeedOptions feed_options{.command = "sluice advise",
                                   .key = replay::read_key(options.key, options.format),
                                   .format = options.format,
                                   .is_strict = options.is_strict};
  const std::vector<replay::Input> inputs = replay::find_inputs(options.files);
  const auto page = replay::open_output("--html", "the page", options.html, inputs);
  replay::Progress progress(streams.progress_descriptor, replay::total_bytes(inputs));
  Traffic traffic(options.max_bytes);
  replay::TimeOrder order(traffic);
  replay::Feed feed(std::move(feed_options), order, streams.err, progress);
  feed.read(inputs);
  order.flush();
  progress.clear();
  if (traffic.requests() == 0 && feed.unreadable() > 0) {
    throw ReplayError(kFailed, "not one line of the input could be read");
  }
  const Advice advice = make_advice(traffic, order.late());
  const AdviceContext context{
      .key = feed.keys_used(),
      .unreadable = feed.unreadable(),
      .replay = replay::command_line(
          {.files = options.files, .key = options.key, .format = options.format})};
  const std::string text = options.is_json ? advice_json(advice, context)
                                           : advice_text(advice, context, streams.is_coloured);
  if (page) {
    write_page(*page, options.html,
               pages::filled(pages::advice_page(), advice_json(shortened(advice), context)));
  }
  std::ostream& out = options.html == "-" ? streams.err : streams.out;
  if (!(out << text << std::flush)) {
    throw ReplayError(kFailed, "the advice cannot be written");
  }
  return feed.is_damaged() ? kFailed : 0;
}

}  // namespace

int run_advise(const AdviseOptions& options, const replay::Streams& streams) {
  int status = kFailed;
  std::string sentence;
  try {
    return advise_all(options, streams);
  } catch (const ReplayError& error) {
    status = error.status();
    sentence = error.what();
  } catch (const std::exception& error) {
    sentence = error.what();
  }
  streams.err << "sluice advise: " << sentence << '\n' << std::flush;
  return status;
}

}  // namespace sluice::advise
