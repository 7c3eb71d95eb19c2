#include "protocols/resp/handler.h"

#include <atomic>
#include <utility>
#include <vector>

namespace sluice::resp {

StreamHandler::Progress Handler::on_data(std::string_view input, std::string& output) {
  ThreadContext& context = thread_->context;
  if (pending_ != nullptr) {
    if (!pending_->is_ready()) return {0, Next::kLater};
    pending_->get().write(replies_, context.counters, output);
    pending_.reset();
  }
  if (peer_.closing) return {input.size(), Next::kClose};
  context.batch.clear();
  const Progress progress = run_commands(input, output);
  pending_ = context.batch.ask(replies_, wake_, output);
  parser_.release();
  if (pending_ != nullptr) return {progress.consumed, Next::kLater};
  if (peer_.closing) return {input.size(), Next::kClose};
  return progress;
}

StreamHandler::Progress Handler::run_commands(std::string_view input, std::string& output) {
  CommandContext context{*thread_, peer_, output};
  DecisionBatch& batch = thread_->context.batch;
  Progress progress;
  for (std::size_t run = 0; run < DecisionBatch::kMaxRequests && !peer_.closing;) {
    const std::string_view rest = input.substr(progress.consumed);
    // A command that equals the last one but for its key is added again without parsing.
    if (batch.ends_with(tag_of(Form::kThrottle))) {
      if (const auto key = parser_.next_repeated(rest)) {
        batch.repeat(*key);
        progress.consumed += parser_.consumed();
        ++run;
        continue;
      }
    }
    const Parser::Result result = parser_.next(rest);
    if (result == Parser::Result::kNeedMore) return progress;
    if (result == Parser::Result::kError) {
      context.reply().error(parser_.error());
      peer_.closing = true;
      return progress;
    }
    progress.consumed += parser_.consumed();
    if (parser_.arguments().empty()) continue;
    ++run;
    run_command(context, parser_.arguments());
  }
  progress.next = Next::kMore;
  return progress;
}

MakeHandler handlers(const std::shared_ptr<ServerContext>& server) {
  std::vector<std::shared_ptr<ThreadState>> threads;
  for (std::size_t i = 0; i < server->threads(); ++i) {
    threads.push_back(std::make_shared<ThreadState>(server, i));
  }
  const auto last_id = std::make_shared<std::atomic<std::int64_t>>(0);
  return [threads = std::move(threads), last_id](std::size_t thread, Wake wake) {
    return std::make_unique<Handler>(threads[thread], ++*last_id, std::move(wake));
  };
}

}  // namespace sluice::resp
