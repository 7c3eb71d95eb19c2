#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "remote/key_tape.h"
#include "remote/load.h"

struct redisAsyncContext;
struct redisReply;

namespace sluice::bench {

/// A server, and the lean GCRA script that it has loaded.
struct GcraScript {
  int port = 0;  // On 127.0.0.1.
  int database = 0;
  std::string sha;
  /// Pass the time to the script, which otherwise uses the server's clock.
  bool caller_clock = false;
};

/// Callers that each send one EVALSHA per decision, pipelined on one connection of hiredis's
/// asynchronous client.
class HiredisCallers final : public Load {
 public:
  /// `tape` must outlive it. Throws std::runtime_error if it cannot connect.
  HiredisCallers(GcraScript script, const KeyTape& tape, std::size_t callers);
  ~HiredisCallers() override;

  void run(std::uint64_t decisions_per_caller) override;

 private:
  struct Caller;
  /// The events for which hiredis waits.
  struct Watch {
    bool read = false;
    bool write = false;
  };

  void ask(Caller& caller);
  void answered(Caller& caller, const redisReply* reply);
  void fail(std::string sentence);
  void serve_socket();

  const GcraScript script_;
  KeyCursor keys_;
  redisAsyncContext* connection_ = nullptr;
  Watch watch_;
  std::size_t busy_ = 0;
  std::string error_;
  std::vector<std::unique_ptr<Caller>> callers_;
};

}  // namespace sluice::bench
