#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <semaphore>
#include <string>
#include <string_view>

#include "net/exchange.h"
#include "stores/redis/script_call.h"

namespace sluice::redis {

class Lane;

/// A call that its asker carries out by itself. Where the reply is late, the asker goes, and the
/// call, which is then nobody's, ends itself when the connection is done with it.
class DirectCall final : public Exchange {
 public:
  enum class Outcome : std::uint8_t {
    kRead,     ///< The decisions are made, but for those that were refused.
    kRefused,  ///< The server, or no server: nothing was carried out.
    kLost,     ///< It may have been carried out, at least in part.
  };

  /// `lane` is the one on whose connection it is carried out, each time.
  DirectCall(const CallOptions& options, Lane& lane) : script_(options), lane_(lane) {}

  /// False where the requests do not fit into one call.
  bool load(const Inquiry& inquiry);

  void write(std::string& output) override;
  void on_reply(std::string_view reply) override;
  void on_lost(Loss loss, std::string_view why) override;

  /// Whether on_reply() or on_lost() is called on another thread by then.
  bool await(std::chrono::steady_clock::time_point deadline);

  /// The asker goes: the call deletes itself later. False where it has been answered after all.
  bool leave();

  /// REQUIRES: on_reply() or on_lost() was called on this thread, await() was true, or leave() was
  /// false.
  Outcome outcome() const { return outcome_; }
  /// Why some decision was not made: one sentence; empty where all were.
  const std::string& why() const { return why_; }

 private:
  enum class State : std::uint8_t { kAwaited, kAnswering, kLeft };

  bool begin_answer();
  void end_answer(bool awaited);
  void take(std::string_view reply);
  void take_faults();

  ScriptCall script_;
  Lane& lane_;
  Instant now_ = kStoreTime;
  std::atomic<State> state_ = State::kAwaited;
  std::binary_semaphore answered_{0};
  Outcome outcome_ = Outcome::kRefused;
  std::string why_;
};

}  // namespace sluice::redis
