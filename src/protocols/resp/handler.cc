#include "protocols/resp/handler.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <utility>
#include <vector>

#include "protocols/resp/command_functions.h"
#include "protocols/resp/commands.h"
#include "service/answers.h"

namespace sluice::resp {
Handler::Handler(std::shared_ptr<ThreadState> thread, std::int64_t id, AcceptedStream stream)
    : thread_(std::move(thread)),
      counted_(thread_->counters),
      wake_(std::move(stream.wake)),
      peer_{.id = id,
            .address = stream.peer,
            .access = {thread_->server->access(), stream.is_local(), stream.certificate}} {
  thread_->shared->clients.add(
      {.id = id, .connected_at = thread_->server->store().now(), .address = stream.peer_with_port});
  note_user(*thread_, peer_);
}

Handler::~Handler() {
  thread_->shared->clients.remove(peer_.id);
}

StreamHandler::Progress Handler::on_data(std::string_view input, std::string& output) {
  ThreadContext& context = thread_->context;
  if (pending_ != nullptr) {
    if (!pending_->is_ready()) return {.next = Next::kLater};
    pending_->get().write(replies_, context.counters, is_exec_batch_ ? exec_replies_ : output);
    pending_.reset();
    end_exec(output);
  }
  if (peer_.mode == Mode::kClosing) return {input.size(), Next::kClose};
  context.begin_batch();
  update_access();
  replies_.clear();
  is_exec_batch_ = peer_.mode == Mode::kExec;
  std::string& replies = is_exec_batch_ ? exec_replies_ : output;
  const Progress progress = run_commands(input, replies);
  pending_ = context.batch.ask(replies_, wake_, replies);
  // From here on the batch does not refer to the commands' bytes.
  parser_.release();
  if (pending_ != nullptr) return {progress.consumed, Next::kLater};
  end_exec(output);
  if (peer_.mode == Mode::kClosing) return {input.size(), Next::kClose};
  return progress;
}

// Replies to the EXEC whose last batch has been decided; does nothing after another batch. Commands
// are left if one before them closes the connection.
void Handler::end_exec(std::string& output) {
  if (!is_exec_batch_ || peer_.mode == Mode::kExec) return;
  Writer writer(output, peer_.protocol);
  writer.array(peer_.transaction.size());
  output += exec_replies_;
  for (std::size_t i = 0; i < peer_.transaction.rest_size(); ++i) {
    writer.error("ERR not run: the connection is closed");
  }
  std::string().swap(exec_replies_);
  peer_.transaction.clear();
}

StreamHandler::Progress Handler::run_commands(std::string_view input, std::string& output) {
  CommandContext context{*thread_, peer_, replies_, output};
  std::size_t consumed = 0;
  bool has_more = true;
  while (has_more && context.room != 0) {
    switch (peer_.mode) {
      case Mode::kRun:
        has_more = run_input(context, input, consumed);
        break;
      case Mode::kQueue:
        has_more = queue_input(context, input, consumed);
        break;
      case Mode::kExec:
        run_queued(context);
        break;
      case Mode::kClosing:
        has_more = false;
        break;
    }
  }
  const bool is_done = !has_more || (peer_.mode != Mode::kExec && consumed == input.size());
  return {.consumed = consumed,
          .next = is_done ? Next::kNeedMore : Next::kMore,
          .has_part = is_done && consumed < input.size()};
}

void Handler::on_end(EndReason why, std::string& output) {
  Writer(output, peer_.protocol)
      .error(why == EndReason::kLate
                 ? "ERR Protocol error: the rest of the command has not come in time"
                 : "ERR " + std::string(kNoMemoryText));
}

// This and queue_input() return whether there may be more to run in the input.
bool Handler::run_input(CommandContext& context, std::string_view input, std::size_t& consumed) {
  DecisionBatch& batch = thread_->context.batch;
  std::size_t repeated = 0;
  bool has_more = true;
  while (context.room != 0 && peer_.mode == Mode::kRun) {
    const std::string_view rest = input.substr(consumed);
    // If a command equals the last one except for its key, its request is added without parsing.
    if (batch.ends_with(tag_of(Form::kThrottle))) {
      if (const auto key = parser_.next_repeated(rest)) {
        batch.repeat(*key);
        consumed += parser_.consumed();
        --context.room;
        ++repeated;
        continue;
      }
    }
    has_more = read_command(context, rest);
    if (!has_more) break;
    consumed += parser_.consumed();
    if (!parser_.arguments().empty()) run(context);
  }
  // Repeated RL.THROTTLE are counted here, too: INFO has the sum of both.
  if (repeated != 0) thread_->commands.add_calls(kThrottleRow, repeated);
  if (peer_.resume_at != 0) consumed -= parser_.consumed();
  return has_more;
}

bool Handler::queue_input(CommandContext& context, std::string_view input, std::size_t& consumed) {
  while (context.room != 0 && peer_.mode == Mode::kQueue) {
    const std::string_view rest = input.substr(consumed);
    if (!read_command(context, rest)) return false;
    consumed += parser_.consumed();
    if (parser_.arguments().empty()) continue;
    --context.room;
    queue_command(context, parser_.arguments(), rest.substr(0, parser_.consumed()));
  }
  return true;
}

// Reads the command at the start of `rest`. False if it is incomplete or invalid.
inline bool Handler::read_command(CommandContext& context, std::string_view rest) {
  const Parser::Result result = parser_.next(rest);
  if (result == Parser::Result::kCommand) return true;
  if (result == Parser::Result::kError) {
    context.reply().error(parser_.error());
    ++thread_->counters.parse_errors;
    peer_.mode = Mode::kClosing;
  }
  return false;
}

// Runs the next command that EXEC took. Its arguments are bytes of the transaction, which must stay
// until the store has decided the batch. So the batch ends with the last command of the
// transaction.
void Handler::run_queued(CommandContext& context) {
  Transaction& transaction = peer_.transaction;
  [[maybe_unused]] const Parser::Result result = parser_.next(transaction.rest());
  assert(result == Parser::Result::kCommand && !parser_.arguments().empty());
  const std::size_t bytes = parser_.consumed();
  if (peer_.resume_at == 0 && exec_replies_.size() > Transaction::kMaxReplyBytes) {
    --context.room;
    context.reply().error("ERR not run: the replies of the transaction have more than " +
                          std::to_string(Transaction::kMaxReplyBytes) + " bytes");
  } else {
    run(context);
  }
  if (peer_.resume_at == 0) transaction.advance(bytes);
  if (!transaction.rest().empty()) return;
  if (peer_.mode == Mode::kExec) peer_.mode = Mode::kRun;
  context.room = 0;
}

// Runs the command that has been read. A batch with commands for which the store opens a space has
// fewer of them, since other connections wait until it is decided.
inline void Handler::run(CommandContext& context) {
  const LimitRegistry& limits = thread_->context.limits;
  const std::size_t opened = limits.opened();
  --context.room;
  run_command(context, parser_.arguments());
  const std::size_t others = thread_->context.batch.weight(limits.opened() != opened) - 1;
  context.room -= std::min(context.room, others);
}

MakeHandler handlers(const std::shared_ptr<ServerContext>& server) {
  const auto shared = std::make_shared<SharedState>(*server);
  std::vector<std::shared_ptr<ThreadState>> threads;
  for (std::size_t i = 0; i < server->threads(); ++i) {
    threads.push_back(std::make_shared<ThreadState>(server, i, shared));
  }
  const auto last_id = std::make_shared<std::atomic<std::int64_t>>(0);
  return [threads = std::move(threads), last_id](AcceptedStream stream) {
    const std::shared_ptr<ThreadState>& thread = threads[stream.thread];
    return std::make_unique<Handler>(thread, ++*last_id, std::move(stream));
  };
}

}  // namespace sluice::resp
