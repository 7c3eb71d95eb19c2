#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "net/backoff.h"
#include "net/client_stream.h"
#include "net/connector.h"
#include "net/conversation.h"
#include "net/event_loop.h"
#include "net/ownership.h"
#include "net/pipeline.h"

namespace sluice {

/// What a pipeline is. As a task, which a borrower posts, it goes on where that one stopped, unless
/// it has ended since.
///
/// The stream, its conversation and what the loop watches belong to whoever holds ownership_: the
/// loop's thread, or a caller of run_here(). All else is the loop's thread's.
class Pipeline::State final : public EventSink,
                              public Task,
                              public std::enable_shared_from_this<State> {
 public:
  State(EventLoop& loop, PipelineOptions options, PipelineUser& user);

  void start();
  void kick();
  void reconnect(std::string_view why);
  bool is_up() const { return phase_ == Phase::kUp; }
  Here run_here(Exchange& exchange, std::chrono::steady_clock::time_point deadline);
  /// What the destructor does.
  void end();

  void on_events(std::uint32_t events) override;
  void run() override { resume(); }

 private:
  using Clock = std::chrono::steady_clock;

  enum class Phase : std::uint8_t { kResting, kConnecting, kGreeting, kUp, kPausing, kEnded };

  /// Why the connection, or the attempt at one, is to be given up.
  struct Fault {
    std::string why;
    bool of_no_use = false;  // The server itself said so: it is not to be asked again at once.
    bool has_ended = false;  // The connection has come to its end by itself.
  };

  // All work on the loop's thread goes through here: takes the connection, or leaves the work to be
  // done when it comes back; then sends what there is to send and gives up what has failed.
  template <typename Work>
  void serve(Work work);
  void settle();

  void begin_attempt();
  void time_out();
  void resume();
  void advance();
  void proceed(Connector::Progress progress);
  void greet();
  void rise();
  void converse();
  void receive();
  void deliver();
  void answer(std::string_view reply);
  void pump();
  void flush();
  void watch_silence();
  void end_silence();
  void fail(std::string why) { fail(Fault{.why = std::move(why)}); }
  void fail(Fault fault);
  void give_up() noexcept;
  void close_stream();
  void lose_all(std::string_view why);
  Fault lost_by(const Transfer& transfer) const;
  std::string given_up(const std::exception& error) const noexcept;

  // The borrower's.
  Here carry_out(Exchange& exchange, Clock::time_point deadline);
  bool hear();

  void watch(std::uint32_t events);

  EventLoop& loop_;
  const PipelineOptions options_;
  PipelineUser& user_;
  const std::string server_;
  const std::string ended_;  // Why there is no answer after end(), which needs no memory.
  Connector connector_;
  Backoff backoff_;
  std::mt19937 random_{std::random_device{}()};  // All values of 32 bits.

  Phase phase_ = Phase::kResting;
  Timer timer_;    // At the end of a pause, or of the time for an attempt.
  Timer silence_;  // When a question will have been in flight for too long.
  bool serving_ = false;
  bool heard_ = false;  // Something has been received in this round.
  std::optional<Fault> fault_;
  std::size_t greeting_replies_ = 0;
  std::size_t greeted_ = 0;
  Clock::time_point up_since_;

  Ownership ownership_;
  std::unique_ptr<ClientStream> stream_;
  std::optional<Conversation> talk_;
  std::uint32_t watched_ = 0;
  bool must_write_ = false;  // The stream moves on only when the socket can be written.
  // Asked for by an exchange's on_reply() on a borrower's thread, which is answering here.
  static thread_local const State* answering_here_;
  bool kicked_ = false;
  std::optional<Fault> parting_;
};

}  // namespace sluice
