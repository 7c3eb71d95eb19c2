#include "net/pipeline.h"

#include <sys/epoll.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "net/pipeline_state.h"

namespace sluice {
namespace {

/// Output of so many bytes is sent before more is asked for.
constexpr std::size_t kUnsentBytes = std::size_t{64} * 1024;

constexpr std::uint32_t kLoopEvents = EPOLLIN | EPOLLRDHUP;

}  // namespace

Pipeline::State::State(EventLoop& loop, PipelineOptions options, PipelineUser& user)
    : loop_(loop),
      options_(std::move(options)),
      user_(user),
      server_(options_.endpoint.text()),
      ended_("the connection to " + server_ + " was closed by its own side"),
      connector_(loop, options_.endpoint, *this, [this] { resume(); }),
      backoff_({.least = options_.least_pause, .most = options_.most_pause}),
      timer_(
          loop,
          [this] { serve([this] { phase_ == Phase::kPausing ? begin_attempt() : time_out(); }); }),
      silence_(loop, [this] { serve([this] { end_silence(); }); }) {}

template <typename Work>
void Pipeline::State::serve(Work work) {
  if (phase_ == Phase::kEnded || serving_ || !ownership_.claim()) return;
  serving_ = true;
  heard_ = false;
  try {
    if (parting_) fail(*std::exchange(parting_, std::nullopt));
    if (!fault_) work();
    if (!fault_ && phase_ == Phase::kUp) pump();
    if (!fault_) watch_silence();
  } catch (const std::exception& error) {
    fail(given_up(error));
  }
  if (fault_) give_up();
  serving_ = false;
  settle();
}

/// Decides what to wait for next, and whether the connection can be lent.
void Pipeline::State::settle() {
  if (phase_ != Phase::kGreeting && phase_ != Phase::kUp) return;
  watch(kLoopEvents | (must_write_ ? EPOLLOUT : 0U));
  if (phase_ == Phase::kUp && talk_->is_idle()) ownership_.release();
}

void Pipeline::State::watch(std::uint32_t events) {
  if (events == watched_) return;
  loop_.modify(stream_->fd(), events, *this);
  watched_ = events;
}

void Pipeline::State::on_events(std::uint32_t) {
  serve([this] {
    // Such a watch is spent by its first event.
    if ((watched_ & EPOLLONESHOT) != 0) watched_ = 0;
    advance();
  });
}

void Pipeline::State::start() {
  if (phase_ == Phase::kResting) serve([this] { begin_attempt(); });
}

void Pipeline::State::begin_attempt() {
  phase_ = Phase::kConnecting;
  timer_.set(options_.connect_timeout);
  proceed(connector_.begin());
}

void Pipeline::State::time_out() {
  const std::string limit = std::to_string(options_.connect_timeout.count()) + " ms";
  fail(phase_ == Phase::kConnecting ? "cannot " + connector_.doing() + " within " + limit
                                    : server_ + " has not greeted within " + limit);
}

void Pipeline::State::resume() {
  serve([this] { advance(); });
}

/// Goes on where the loop's thread waited for an event.
void Pipeline::State::advance() {
  if (phase_ == Phase::kGreeting || phase_ == Phase::kUp) return converse();
  if (phase_ == Phase::kConnecting) proceed(connector_.advance());
  // Anything else is an event that comes too late.
}

void Pipeline::State::proceed(Connector::Progress progress) {
  switch (progress) {
    case Connector::Progress::kWaiting:
      return;
    case Connector::Progress::kFailed:
      return fail(connector_.fault());
    case Connector::Progress::kConnected:
      return greet();
  }
}

void Pipeline::State::greet() {
  stream_ = connector_.take();
  watched_ = 0;
  talk_.emplace(user_.make_framing(),
                Conversation::Bounds{options_.max_in_flight, options_.max_reply_bytes});
  phase_ = Phase::kGreeting;
  greeted_ = 0;
  greeting_replies_ = user_.greeting_replies();
  talk_->say(user_.greeting());
  flush();
  if (!fault_ && greeting_replies_ == 0) rise();
  // What came with the end of the handshake will not be told of by the socket.
  if (!fault_ && stream_->holds_more()) receive();
}

void Pipeline::State::rise() {
  phase_ = Phase::kUp;
  timer_.cancel();
  up_since_ = Clock::now();
  user_.on_up();
}

void Pipeline::State::converse() {
  must_write_ = false;
  receive();
  if (!fault_) flush();
}

void Pipeline::State::receive() {
  deliver();  // What a borrower has received.
  while (!fault_) {
    const Transfer transfer = stream_->receive(talk_->room());
    if (transfer.status == Transfer::Status::kMustRead) return;
    if (transfer.status == Transfer::Status::kMustWrite) {
      must_write_ = true;
      return;
    }
    if (transfer.status != Transfer::Status::kMoved) return fail(lost_by(transfer));
    talk_->received(transfer.bytes);
    heard_ = true;
    deliver();
    if (!stream_->holds_more()) return;
  }
}

void Pipeline::State::deliver() {
  while (!fault_) {
    const std::optional<std::string_view> reply = talk_->next_reply();
    if (reply) answer(*reply);
    if (!talk_->fault().empty()) fail(server_ + " " + talk_->fault());
    if (!reply) return;
    talk_->drop_reply();
  }
}

void Pipeline::State::answer(std::string_view reply) {
  if (phase_ == Phase::kUp) {
    if (Exchange* const exchange = talk_->answered()) exchange->on_reply(reply);
    return;
  }
  if (std::optional<std::string> refusal = user_.on_greeting(greeted_, reply)) {
    return fail(Fault{.why = std::move(*refusal), .of_no_use = true});
  }
  if (++greeted_ == greeting_replies_) rise();
}

void Pipeline::State::pump() {
  if (!heard_ && talk_->is_idle() && !stream_->is_quiet()) {
    receive();
    if (!fault_) fail(server_ + " closed the connection");
    return;
  }
  while (!fault_ && talk_->unsent().empty()) {
    while (talk_->in_flight() < options_.max_in_flight && talk_->unsent().size() < kUnsentBytes) {
      Exchange* const exchange = user_.next_exchange();
      if (exchange == nullptr) break;
      talk_->ask(*exchange, Clock::now());
    }
    if (talk_->unsent().empty()) return;
    flush();
  }
}

void Pipeline::State::flush() {
  while (!talk_->unsent().empty()) {
    const Transfer transfer = stream_->send(talk_->unsent());
    if (transfer.status == Transfer::Status::kMoved) {
      talk_->sent(transfer.bytes);
      continue;
    }
    if (transfer.status == Transfer::Status::kMustRead) return;
    if (transfer.status == Transfer::Status::kMustWrite) {
      must_write_ = true;
      return;
    }
    Fault lost = lost_by(transfer);
    // The replies it sent before it went, and its reason, may still be there to be read.
    receive();
    if (!fault_) fail(std::move(lost));
    return;
  }
}

void Pipeline::State::watch_silence() {
  if (silence_.is_set() || !talk_) return;
  const std::optional<Clock::time_point> since = talk_->waiting_since();
  if (since) silence_.set_at(*since + options_.silence_timeout);
}

void Pipeline::State::end_silence() {
  if (!talk_) return;
  const std::optional<Clock::time_point> oldest = talk_->waiting_since();
  if (!oldest || Clock::now() - *oldest < options_.silence_timeout) return;
  fail(server_ + " has not answered for " + std::to_string(options_.silence_timeout.count()) +
       " ms");
}

Pipeline::State::Fault Pipeline::State::lost_by(const Transfer& transfer) const {
  return {.why = transfer.status == Transfer::Status::kEnded
                     ? server_ + " closed the connection"
                     : "the connection to " + server_ + " failed: " + stream_->fault(),
          .has_ended = transfer.status == Transfer::Status::kEnded};
}

std::string Pipeline::State::given_up(const std::exception& error) const noexcept {
  try {
    return "the connection to " + server_ + " was given up: " + error.what();
  } catch (const std::exception&) {
    return std::string(kNoMemory);
  }
}

void Pipeline::State::kick() {
  if (answering_here_ == this) {
    kicked_ = true;
    return;
  }
  serve([] {});
}

void Pipeline::State::reconnect(std::string_view why) {
  Fault fault{.why = {}, .of_no_use = true};
  keep_reason(fault.why, why);
  if (answering_here_ == this) {
    parting_ = std::move(fault);
    return;
  }
  if (phase_ == Phase::kResting || phase_ == Phase::kPausing) return;
  fail(std::move(fault));
  serve([] {});
}

/// Only the first fault counts: what follows from it is none.
void Pipeline::State::fail(Fault fault) {
  if (!fault_) fault_ = std::move(fault);
}

/// Needs no memory: without the next attempt nobody would ever connect again.
void Pipeline::State::give_up() noexcept {
  const Fault fault = *std::exchange(fault_, std::nullopt);
  const bool was_up = phase_ == Phase::kUp;
  const Clock::duration up_for = was_up ? Clock::now() - up_since_ : Clock::duration(0);
  phase_ = Phase::kPausing;
  connector_.abandon(fault.of_no_use);
  // Else the system would go on sending, and the server might do much later what is given up here.
  if (!fault.has_ended && talk_ && talk_->in_flight() != 0) stream_->reset_on_close();
  close_stream();
  lose_all(fault.why);
  user_.on_down(fault.why);
  backoff_.forget_if_lasting(up_for);
  const auto random = static_cast<std::uint32_t>(random_());
  // Never at once: between two rounds of events no event of the old socket is left.
  timer_.set(was_up && !fault.of_no_use ? backoff_.after_loss(up_for, random)
                                        : backoff_.after_failure(random));
}

void Pipeline::State::close_stream() {
  if (stream_ == nullptr) return;
  loop_.remove(stream_->fd());
  stream_.reset();
}

void Pipeline::State::lose_all(std::string_view why) {
  if (!talk_) return;
  const std::vector<Conversation::Unanswered> unanswered = talk_->end();
  talk_.reset();
  for (const Conversation::Unanswered& one : unanswered) one.exchange->on_lost(one.loss, why);
}

/// Closes in order, even with a question open: what was given back last is to arrive.
void Pipeline::State::end() {
  ownership_.await();
  phase_ = Phase::kEnded;
  timer_.cancel();
  silence_.cancel();
  connector_.abandon();
  close_stream();
  lose_all(ended_);
}

Pipeline::Pipeline(EventLoop& loop, PipelineOptions options, PipelineUser& user)
    : state_(std::make_shared<State>(loop, std::move(options), user)) {}

Pipeline::~Pipeline() {
  state_->end();
}

void Pipeline::start() {
  state_->start();
}

void Pipeline::kick() {
  state_->kick();
}

void Pipeline::reconnect(std::string_view why) {
  state_->reconnect(why);
}

bool Pipeline::is_up() const {
  return state_->is_up();
}

Pipeline::Here Pipeline::run_here(Exchange& exchange,
                                  std::chrono::steady_clock::time_point deadline) {
  return state_->run_here(exchange, deadline);
}

}  // namespace sluice
