#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/instant.h"
#include "core/store.h"
#include "protocols/resp/command.h"
#include "protocols/resp/parser.h"

namespace sluice::resp {

/// What became of a connection's input.
struct Progress {
  enum class Next : std::uint8_t {
    kNeedMore,  ///< What is left is no whole command: call again when more has arrived.
    kMore,      ///< A batch was full: call again with the rest, which may hold whole commands.
    kLater,     ///< The store has not answered yet: call again when it has.
    kClose,     ///< Send the output, then close.
  };

  /// How many bytes at the start of the input are dealt with. What is left is less than
  /// kMaxCommandBytes, unless `next` is kMore or kLater.
  std::size_t consumed = 0;
  Next next = Next::kNeedMore;
};

/// One connection: bytes in, bytes out, no socket. Commands that arrive together are decided
/// together, and answered in order.
///
/// Sessions of one thread share a desk, which outlives them. Not thread-safe.
class Session {
 public:
  /// `id` is what CLIENT ID says. `wake` is called, on any thread, when a store that answers later
  /// has answered, even if the session has gone by then. It is needed for such a store only.
  Session(Desk& desk, std::int64_t id, std::function<void()> wake = {})
      : desk_(desk), wake_(std::move(wake)) {
    peer_.id = id;
  }

  /// Carries out at most kMaxBatch commands at the start of `input`, which continues where the last
  /// call stopped consuming, and appends their replies to `output`: a few KiB a command at most,
  /// besides what PING and ECHO return of the input. The store decides at `now`, or by its own
  /// clock. Where the last call said kLater and it is too early to call again, it says so again,
  /// and does nothing else.
  Progress on_data(std::string_view input, std::string& output, Instant now = kStoreTime);

 private:
  Desk& desk_;
  std::function<void()> wake_;
  Peer peer_;
  Parser parser_;
  std::shared_ptr<PendingBatch> pending_;
};

}  // namespace sluice::resp
