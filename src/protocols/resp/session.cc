#include "protocols/resp/session.h"

namespace sluice::resp {

Progress Session::on_data(std::string_view input, std::string& output, Instant now) {
  using Next = Progress::Next;
  if (pending_ != nullptr) {
    if (!pending_->is_decided()) return {0, Next::kLater};
    pending_->write_replies(output);
    desk_.pending_batches.give_back(std::move(pending_));
  }
  if (peer_.closing) return {input.size(), Next::kClose};
  Turn turn(desk_, peer_, now, output);
  Progress progress{.consumed = 0, .next = Next::kMore};
  for (std::size_t handled = 0; handled < kMaxBatch;) {
    const Parser::Result result = parser_.next(input.substr(progress.consumed));
    if (result == Parser::Result::kNeedMore) {
      progress.next = Next::kNeedMore;
      break;
    }
    if (result == Parser::Result::kError) {
      turn.reply().error(parser_.error());
      peer_.closing = true;
      break;
    }
    progress.consumed += parser_.consumed();
    if (parser_.arguments().empty()) continue;
    ++handled;
    // What is the same as in the command before means the same, if that one is still pending.
    if (parser_.is_repeated() && turn.repeat_throttle(parser_.arguments()[1])) continue;
    run_command(turn, parser_.arguments());
    // The parser's own buffer, where quoted arguments are, holds one command only.
    if (parser_.is_quoted()) {
      turn.answer_decisions();
      parser_.release();
    }
    if (peer_.closing) break;
  }
  turn.answer_decisions();
  if (desk_.answers_later) {
    pending_ = turn.ask_later(wake_);
    if (pending_ != nullptr) return {progress.consumed, Next::kLater};
  }
  if (peer_.closing) return {input.size(), Next::kClose};
  return progress;
}

}  // namespace sluice::resp
