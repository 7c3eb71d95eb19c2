#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/store.h"
#include "stores/redis/redis_space.h"

namespace sluice::redis {

struct CallOptions {
  /// Nothing is written with a shorter lifetime: for instants that have nothing to do with the
  /// server's clock.
  std::int64_t least_lifetime_ms = 0;
  /// Added to each lifetime: how far the clocks that name instants may be apart.
  std::int64_t skew_ms = 0;
  /// Where no instant is given, this process's clock names it as the call is written, so that what
  /// came at different moments can travel together; else the server's does as it runs the call.
  bool client_time = false;
};

/// One call of the script: many requests, decided in order in one step of the server. Used again
/// and again it allocates nothing. Not thread-safe.
class ScriptCall {
 public:
  /// One that takes up to so many counts as many times as it has halves: 53 at most.
  static constexpr std::size_t kMaxRequests = 128;
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  explicit ScriptCall(const CallOptions& options = {});

  void clear();

  /// How often add() and add_together() have returned true.
  std::size_t size() const { return units_.size(); }

  /// Adds a request. It, what it refers to and the decision stay where they are until read() or
  /// abandon(). False, and nothing added, where the call would exceed kMaxRequests or kMaxBytes.
  bool add(const Request& request, Decision& decision) { return add({&request, 1}, decision); }
  /// Adds requests that are charged all or none. REQUIRES: no two name the same key.
  bool add_together(std::span<const Request> requests, Decision& decision) {
    return add(requests, decision);
  }

  /// Appends the whole command: EVALSHA, in RESP. The reply will name `number`, which no other call
  /// of the connection may have while a reply to it can come.
  void write(Instant now_or_store_time, std::uint32_t number, std::string& output);

  /// Reads the whole reply, which is no error, and makes every decision. What the reply does not
  /// answer is kUnanswered: a request whose key holds something else, or that the server refuses to
  /// write; all where it names another call's number; all that follows where it makes no sense. In
  /// these two cases it is false: no later reply of the connection is to be trusted. REQUIRES:
  /// write() was called.
  [[nodiscard]] bool read(std::string_view reply);

  /// The instant of the decisions that were read, by the clock that was asked for.
  Instant judged_at() const { return now_; }

  /// Why the i-th was not answered: one sentence, the server's where it gave one ("READONLY ...");
  /// empty where it was answered, or abandoned. Valid until clear().
  std::string_view fault(std::size_t i) const;

  /// The i-th is asked for no more: its requests, what they refer to and its decision are not
  /// touched again. If it was written, it is carried out nevertheless.
  void abandon(std::size_t i);
  void abandon_all() {
    for (std::size_t i = 0; i < size(); ++i) abandon(i);
  }

 private:
  /// What was added as one.
  struct Unit {
    std::uint16_t first = 0;  // of asked_
    std::uint16_t count = 0;
    bool halves = false;  // Each is charged for itself, and the sum is what was taken.
    bool written = false;
    Decision* decision = nullptr;  // null: abandoned
    std::uint32_t fault_at = 0;
    std::uint32_t fault_bytes = 0;
  };
  /// A request or a half of one, and how long its answer is once it cannot be asked any more.
  struct Asked {
    const Request* request = nullptr;
    std::int64_t cost = 0;
    std::int64_t taken = 0;        // by the halves before it, once they are read
    std::uint32_t key_bytes = 0;   // of the key in its name, encoded
    std::uint16_t head_bytes = 0;  // 0: the head is not answered
    std::uint16_t summed = 0;
  };
  using AskedTogether = std::span<const Asked>;
  struct Cursor;
  struct Header;
  class Pen;
  /// Bytes in the making, in room that is kept.
  struct Draft {
    /// Begins anew; no more than so many bytes will be put.
    void begin(std::size_t most_bytes) {
      if (room.size() < most_bytes) room.resize(most_bytes);
      end = room.data();
    }
    std::string_view text() const { return {room.data(), end}; }

    std::vector<char> room;
    char* end = nullptr;
  };

  bool add(std::span<const Request> requests, Decision& decision);
  /// `named`: what was added before it, in the same unit, names its key already.
  bool add_asked(const Request& request, std::int64_t cost, bool named = false);
  bool add_halves(const Request& request);
  std::uint8_t key_index(const Asked& asked);
  std::uint16_t space_place(const RedisSpace& space);
  char* begin_questions(Instant now_or_store_time);
  enum class Link : std::uint8_t;
  bool is_like_last(const Asked& asked) const;
  void write_request(Asked& asked, Link link, Instant near);
  void write_question(const Asked& asked, std::uint8_t key, Link link, Instant near);
  std::string_view read_head(std::string_view reply, Cursor& cursor);
  std::string_view read_unit(const Unit& unit, Cursor& cursor) const;
  std::string_view read_halves(AskedTogether halves, Cursor& cursor, Decision* decision) const;
  std::string_view read_answers(AskedTogether asked, Cursor& cursor, Decision* decision) const;
  static std::size_t answer_bytes(AskedTogether asked, std::string_view answers);
  bool judge(AskedTogether asked, const char* answers, Decision& decision) const;
  bool judge_all(AskedTogether asked, const char* answers, bool retract, Decision& decision) const;
  void fail(Unit& unit, std::string_view why);

  const CallOptions options_;
  std::vector<Unit> units_;
  std::vector<Asked> asked_;  // As many as there can be.
  std::size_t asked_count_ = 0;
  std::size_t bytes_ = 0;  // The command's, at most.
  std::uint32_t number_ = 0;
  Instant now_ = 0;
  std::string faults_;

  // Of the command that is being written:
  Draft keys_;
  Draft questions_;
  std::vector<const Request*> key_owners_;
  std::array<std::uint8_t, 2 * kMaxRequests> key_places_{};  // hashed; an index plus 1, or 0
  std::vector<const RedisSpace*> spaces_;
  // Neighbours most often share it, and its place.
  const RedisSpace* last_space_ = nullptr;
  std::uint16_t last_place_ = 0;
  // So do they what is asked of their keys. Null where nothing like it can follow.
  const Asked* last_asked_ = nullptr;
  std::size_t last_bytes_ = 0;
  bool whole_ = true;  // All values are read as a whole.
};

}  // namespace sluice::redis
