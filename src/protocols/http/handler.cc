#include "protocols/http/handler.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "protocols/http/routes.h"
#include "service/answers.h"

namespace sluice::http {

Handler::Handler(std::shared_ptr<ThreadState> thread, Peer peer, Wake wake)
    : thread_(std::move(thread)),
      counted_(thread_->counters),
      wake_(std::move(wake)),
      peer_(std::move(peer)),
      replies_(thread_->server->store(), thread_->date, *thread_->reservations) {
  thread_->update_rules();
  note_trust();
}

StreamHandler::Progress Handler::on_data(std::string_view input, std::string& output) {
  ThreadContext& context = thread_->context;
  const auto replies_to = [&]() -> std::string& {
    return list_ == nullptr ? output : list_->results();
  };
  if (pending_ != nullptr) {
    if (!pending_->is_ready()) return {.next = Next::kLater};
    pending_->get().write(replies_, context.counters, replies_to());
    pending_.reset();
    replies_.clear();  // Denied reservations return their places.
    end_list(output);
  }
  if (is_closing_ && list_ == nullptr) return {input.size(), Next::kClose};
  context.begin_batch();
  peer_.access.update();
  thread_->update_rules();
  if (peer_.rules_version != thread_->rules_version) note_trust();
  replies_.clear();
  thread_->arena->release();
  Progress progress;
  if (list_ == nullptr) progress = run_requests(input, output);
  if (list_ != nullptr) {
    list_->ask(*thread_, replies_);
    progress.next = Next::kMore;
  }
  pending_ = context.batch.ask(replies_, wake_, replies_to());
  if (pending_ != nullptr) return {progress.consumed, Next::kLater};
  replies_.clear();
  end_list(output);
  if (is_closing_ && list_ == nullptr) return {input.size(), Next::kClose};
  return progress;
}

// Finds whether the peer is a trusted proxy by the thread's rules.
void Handler::note_trust() {
  peer_.rules_version = thread_->rules_version;
  peer_.is_trusted = thread_->trusts(peer_.address);
}

void Handler::end_list(std::string& output) {
  if (list_ == nullptr || !list_->is_done()) return;
  list_->respond(output, date());
  list_.reset();
}

StreamHandler::Progress Handler::run_requests(std::string_view input, std::string& output) {
  std::size_t consumed = 0;
  is_batch_full_ = false;
  const ThreadContext& context = thread_->context;
  for (std::size_t left = DecisionBatch::kMaxRequests; left != 0 && !is_batch_full_;) {
    const std::size_t opened = context.limits.opened();
    const RequestParser::Result result = parser_.next(input.substr(consumed));
    consumed += parser_.consumed();
    switch (result) {
      case RequestParser::Result::kRequest:
        run(output, /*has_body=*/true, consumed == input.size());
        break;
      case RequestParser::Result::kHead:
        run(output, /*has_body=*/false, /*is_last=*/false);
        break;
      case RequestParser::Result::kContinue:
        write_response(thread_->context.batch.other_replies(output), {}, {}, {.status = 100});
        break;
      case RequestParser::Result::kNeedMore:
        return {.consumed = consumed,
                .next = Next::kNeedMore,
                .has_part = parser_.has_part() || consumed < input.size()};
      case RequestParser::Result::kRefused:
        refuse(parser_.problem(), output);
        break;
    }
    left -= std::min(left, context.batch.weight(context.limits.opened() != opened));
  }
  return {.consumed = consumed, .next = Next::kMore};
}

// If only the head has come (`has_body` is false), the server refuses a request that the client may
// not make, and closes the connection; any other request is carried out when its body has come.
// `is_last`: no further bytes have arrived after this request.
void Handler::run(std::string& output, bool has_body, bool is_last) {
  const Message& message = parser_.message();
  const bool closes =
      !has_body || !message.keeps_alive || (is_last && thread_->server->is_draining());
  RequestContext context{.thread = *thread_,
                         .peer = peer_,
                         .message = message,
                         .replies = replies_,
                         .options = {.omits_body = message.method == "HEAD",
                                     .closes = closes,
                                     .says_keep_alive = !closes && message.is_http_1_0},
                         .output = output,
                         .list = list_};
  const auto respond_with = [&](const Problem& problem) {
    write_problem(thread_->context.batch.other_replies(output), context.options, date(), problem);
  };
  try {
    const Route& route = find_allowed(context);
    if (!has_body) return;
    route.run(context);
  } catch (const Problem& problem) {
    respond_with(problem);
  } catch (const std::system_error& error) {
    respond_with({.status = 503, .detail = error.what(), .retry_after_s = 1});
  }
  has_sent_token_ = has_sent_token_ || context.has_right_token;
  if (context.is_to_repeat) {
    parser_.repeat();
  } else if (context.options.closes) {
    is_closing_ = true;
  }
  is_batch_full_ = context.is_last || is_closing_;
}

// Answers with the problem and closes the connection, whose further bytes cannot be parsed.
void Handler::refuse(const Problem& problem, std::string& output) {
  write_problem(thread_->context.batch.other_replies(output), {.closes = true}, date(), problem);
  ++thread_->counters.parse_errors;
  is_closing_ = is_batch_full_ = true;
}

void Handler::on_end(EndReason why, std::string& output) {
  const Problem problem =
      why == EndReason::kLate
          ? Problem{.status = 408, .detail = "the rest of the request has not come in time"}
          : Problem{.status = 503, .detail = std::string(kNoMemoryText), .retry_after_s = 1};
  write_problem(output, {.closes = true}, date(), problem);
}

// A list keeps the body, too, while it is answered: parsed, that takes about as much again.
std::size_t Handler::held_bytes() const {
  const std::size_t of_parser = parser_.held_bytes();
  return list_ == nullptr ? of_parser : 2 * of_parser + list_->results().capacity();
}

namespace {

MakeHandler make_handlers(const std::shared_ptr<ServerContext>& server, std::string_view protocol,
                          bool is_at_admin) {
  const auto reservations = std::make_shared<Reservations>();
  std::vector<std::shared_ptr<ThreadState>> threads;
  for (std::size_t i = 0; i < server->threads(); ++i) {
    threads.push_back(std::make_shared<ThreadState>(server, i, reservations, protocol));
  }
  return [threads = std::move(threads), is_at_admin](AcceptedStream stream) {
    const std::shared_ptr<ThreadState>& thread = threads[stream.thread];
    ClientAccess access(thread->server->access(), stream.is_local(), stream.certificate);
    return std::make_unique<Handler>(thread,
                                     Peer{.address = std::move(stream.peer),
                                          .access = std::move(access),
                                          .is_loopback = stream.is_loopback,
                                          .is_at_admin = is_at_admin},
                                     std::move(stream.wake));
  };
}

}  // namespace

MakeHandler handlers(const std::shared_ptr<ServerContext>& server) {
  return make_handlers(server, "http", false);
}

MakeHandler admin_handlers(const std::shared_ptr<ServerContext>& server) {
  return make_handlers(server, "admin", true);
}

}  // namespace sluice::http
