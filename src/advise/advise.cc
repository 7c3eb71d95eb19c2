#include "advise/advise.h"

#include "advise/advice.h"
#include "advise/advice_report.h"
#include "core/exit_status.h"
#include "core/safe_text.h"
#include "pages/pages.h"
#include "replay/command_line.h"
#include "replay/feed.h"
#include "replay/inputs.h"
#include "replay/output_file.h"
#include "replay/page_report.h"
#include "replay/text.h"

namespace sluice::advise {
namespace {

constexpr std::string_view kCommand = "sluice advise";

/// For the page: texts safe to show, the keys cut as those of the report, for a log may have keys
/// of a megabyte. The other texts have room for the user agent of a browser.
Advice shortened(Advice advice) {
  advice.log.key = printable(advice.log.key, replay::kTypedColumns);
  for (HitKey& hit : advice.hit_first) {
    hit.key = printable(hit.key, replay::kPageKeyColumns);
    hit.user_agent = printable(hit.user_agent, replay::kTypedColumns);
    hit.path = printable(hit.path, replay::kTypedColumns);
  }
  return advice;
}

int advise_all(const AdviseOptions& options, const replay::Streams& streams) {
  const replay::Logs logs = replay::find_logs(options.log);
  const auto page = replay::open_output("--html", "the page", options.html, logs.inputs);
  if (page) page->clear();
  Traffic traffic(options.max_bytes);
  replay::Feed feed(kCommand, logs, traffic, streams);
  feed.read();
  const Advice advice = make_advice(traffic, feed.summary());
  if (page) {
    write_page(*page, pages::filled(pages::advice_page(), advice_json(shortened(advice))));
  }
  const std::string text =
      options.is_json
          ? advice_json(advice)
          : advice_text(advice, replay::command_line({.log = options.log}), streams.is_coloured);
  replay::print("the advice", text, options.html == "-" ? streams.err : streams.out);
  return advice.log.is_damaged ? kFailed : 0;
}

}  // namespace

int run_advise(const AdviseOptions& options, const replay::Streams& streams) {
  return replay::run_command(kCommand, streams.err, [&] { return advise_all(options, streams); });
}

}  // namespace sluice::advise
