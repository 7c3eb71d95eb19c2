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

/// The server, and the lean GCRA script that it has loaded.
struct GcraScript {
  int port = 0;  // Of 127.0.0.1.
  int database = 0;
  std::string sha;
  /// Tell the script the time, else it asks the server's clock.
  bool caller_clock = false;
};

/// Callers that each send one EVALSHA per decision, pipelined through one connection of hiredis's
/// asynchronous client.
class HiredisCallers final : public Load {
 public:
  /// `tape` outlives it. Throws std::runtime_error where it cannot connect.
  HiredisCallers(GcraScript script, const KeyTape& tape, std::size_t callers);
  ~HiredisCallers() override;

  void run(std::uint64_t decisions_per_caller) override;

 private:
  struct Caller;
  /// What hiredis waits for.
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
  std::string fault_;
  std::vector<std::unique_ptr<Caller>> callers_;
};

}  // namespace sluice::bench
