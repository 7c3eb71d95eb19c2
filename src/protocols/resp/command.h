#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "limiter/limit_book.h"
#include "protocols/resp/batch.h"
#include "protocols/resp/pending_batch.h"
#include "protocols/resp/throttle_limits.h"
#include "protocols/resp/writer.h"

namespace sluice::resp {

/// What all sessions of one thread share. Not thread-safe: each thread has its own, over one store.
struct Desk {
  /// Throws StoreError where the store cannot open the space of CL.THROTTLE.
  Desk(std::shared_ptr<Store> shared_store, LimitBook limit_book)
      : store(std::move(shared_store)),
        answers_later(store->answers_later()),
        book(std::move(limit_book)),
        throttle_limits(*store) {}

  std::shared_ptr<Store> store;
  /// Decides which of the batches below are used.
  const bool answers_later;
  LimitBook book;
  ThrottleLimits throttle_limits;
  Batch batch;
  PendingBatches pending_batches;
};

/// The longest name that a client may give its connection, which keeps it.
inline constexpr std::size_t kMaxNameBytes = 256;

/// What a connection's commands have said about it.
struct Peer {
  std::int64_t id = 0;
  Protocol protocol = Protocol::kResp2;
  /// At most kMaxNameBytes.
  std::string name;
  /// No more commands are read; what has been answered is still sent.
  bool closing = false;
};

/// Where the commands of one read are carried out. Decisions gather in a batch. Whatever else
/// replies makes them reply first, so that the order stays; or, where the store answers later,
/// gives its reply to the batch, which keeps the order.
class Turn {
 public:
  Turn(Desk& desk, Peer& peer, Instant now, std::string& output)
      : desk_(desk), peer_(peer), now_(now), output_(output) {}

  /// Where an exception ends the turn, decisions are left whose requests refer to this input, and
  /// whose replies would go to the next peer.
  ~Turn() { desk_.batch.forget(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Desk& desk() { return desk_; }
  Peer& peer() { return peer_; }

  /// What the request refers to lives until answer_decisions(), its limit and space until the end
  /// of this turn. `space` is the request's.
  void decide(const Request& request, Form form, const std::shared_ptr<Space>& space) {
    if (desk_.answers_later) return decide_later(request, form, space);
    desk_.batch.add(request, form);
  }

  /// The command before was a CL.THROTTLE whose decision is pending: asks the same for this key.
  /// Else false. (What is no decision replies, and leaves none pending.)
  bool repeat_throttle(std::string_view key) { return desk_.batch.repeat(key, Form::kThrottle); }

  /// Where the store answers at once, it does so here.
  void answer_decisions() { desk_.batch.answer(*desk_.store, now_, output_); }

  /// For a reply that is not a decision. Made anew for each reply, since HELLO changes the
  /// protocol.
  Writer reply() {
    if (pending_ != nullptr) return {pending_->replies(), peer_.protocol};
    answer_decisions();
    return {output_, peer_.protocol};
  }

  /// At the end of the turn, where the store answers later: asks it. Null: all replies are written.
  /// Else they are still to come: `wake` will be called, on any thread, when the batch is decided.
  std::shared_ptr<PendingBatch> ask_later(const std::function<void()>& wake);

 private:
  void decide_later(Request request, Form form, const std::shared_ptr<Space>& space);

  Desk& desk_;
  Peer& peer_;
  Instant now_;
  std::string& output_;
  std::shared_ptr<PendingBatch> pending_;
};

/// The command's name is the first, a subcommand's the second.
using Arguments = std::span<const std::string_view>;

struct Command {
  /// In capitals; "CLIENT|ID" is the subcommand ID of CLIENT.
  std::string_view name;
  /// How many arguments, the name included; negative: at least so many.
  int arity;
  void (*run)(Turn& turn, Arguments arguments);
  std::string_view summary;
};

/// Every command there is, the most urgent first.
std::span<const Command> commands();

/// The command of this name in any case, or null.
const Command* find_command(std::string_view name);

/// Runs a command, or replies why there is none such. REQUIRES: at least one argument.
void run_command(Turn& turn, Arguments arguments);

/// Runs the subcommand that arguments[1] names, or replies why there is none such.
void run_subcommand(Turn& turn, Arguments arguments);

/// How much of what a client sent an error repeats at most, as in Redis.
inline constexpr std::size_t kMaxQuotedBytes = 128;

/// A command's name as Redis writes it in errors and descriptions.
std::string in_small_letters(std::string_view capitals);

/// Whether the texts are the same in ASCII but for case. `capitals` has no small letters.
bool is_word(std::string_view text, std::string_view capitals);

// The commands, by the file that has them: limit_commands.cc, connection_commands.cc,
// server_commands.cc.
void run_cl_throttle(Turn& turn, Arguments arguments);
void run_sluice_check(Turn& turn, Arguments arguments);
void run_sluice_peek(Turn& turn, Arguments arguments);
void run_sluice_reset(Turn& turn, Arguments arguments);

void run_auth(Turn& turn, Arguments arguments);
void run_client_getname(Turn& turn, Arguments arguments);
void run_client_id(Turn& turn, Arguments arguments);
void run_client_setinfo(Turn& turn, Arguments arguments);
void run_client_setname(Turn& turn, Arguments arguments);
void run_echo(Turn& turn, Arguments arguments);
void run_hello(Turn& turn, Arguments arguments);
void run_ping(Turn& turn, Arguments arguments);
void run_quit(Turn& turn, Arguments arguments);
void run_reset(Turn& turn, Arguments arguments);
void run_select(Turn& turn, Arguments arguments);

void run_command_list(Turn& turn, Arguments arguments);
void run_command_count(Turn& turn, Arguments arguments);
void run_command_docs(Turn& turn, Arguments arguments);
void run_command_info(Turn& turn, Arguments arguments);
void run_info(Turn& turn, Arguments arguments);

}  // namespace sluice::resp
