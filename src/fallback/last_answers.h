#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/limit_syntax.h"
#include "core/lock.h"
#include "core/store.h"
#include "fallback/fallback_space.h"
#include "fallback/tag_table.h"

namespace sluice {

/// What the store said last of each key: how many units are used, and which take it denied. Each
/// answer overwrites the one before: of each key, they are recorded in the order in which the store
/// gave them (but see record()).
///
/// A denial with retry_after r of a request that was sent at t stands until t + r. It applies to
/// requests of the same key under the same numbers that the store would deny too: a take of at
/// least its cost and, if a part is a bucket, at most its patience (the longest delay that the
/// caller accepts), and a take of what remains if a single unit was denied. Only the latest denial
/// of each key is remembered, and none without an end (retry_after kNever: no state admits the
/// cost). It is over when it ends, when the store admits a take of any cost, or answers that as
/// much as its cost remains, or when the key is reset.
///
/// A denial is repeated until t + hold at most, so that what another process refunds is seen after
/// that time. So for a hot key the store is asked for each admission, for one denial per
/// retry_after or hold, and for the requests that were in flight when that denial arrived. To the
/// local states, which answer while the store does not, take_new() tells it as long as it stands.
///
/// Keys are compared by their hashes: if n keys are remembered, the probability that one of k other
/// keys is mistaken for one of them is about n * k / 2^61.
///
/// Grows with the keys, up to its most bytes: half of them are for what was told, 32 bytes for each
/// key and for each part of an `&`, and half for denials, 64 bytes each. Then, of a few, the key
/// that will be fresh first, or the denial that ends first, is forgotten for a new one. All calls
/// must use the same clock, which is never set back. Thread-safe: takes at most one lock at a time,
/// for a few dozen nanoseconds or, now and then, until a share of the entries has been spread over
/// twice the room.
class LastAnswers {
 public:
  enum class Keeps : std::uint8_t { kAll, kDenials };

  struct Options {
    /// kDenials: only keys that were denied.
    Keeps keeps = Keeps::kAll;
    /// At least 512 KiB.
    std::size_t most_bytes = 0;
    /// For how long a denial is used while the store answers; 0 for not at all.
    std::chrono::nanoseconds hold{0};
  };

  /// What was used of a key, or of one part of it; at least that, where nothing remained. It holds
  /// under other numbers too; what remained does not.
  struct Told {
    Instant at = 0;         ///< When the answer arrived.
    std::int64_t used = 0;  ///< At least 0. What is borrowed, only `reset_at` tells.
    Instant reset_at = 0;   ///< From then on the key is fresh.
  };

  explicit LastAnswers(const Options& options);

  /// The store has given this answer, which arrived at `at`, to a request that was sent at `sent`
  /// or later. Nothing for `sent`: the request was not asked at the store's time, so that the
  /// answer says nothing of denials. Of an `&`, request.parts has the decisions of all parts; if
  /// not, only what the binding part told is known. Only the answer to a request that was sent
  /// after the last note_block() tells that the key is not blocked. The answer is newer than those
  /// that arrived until `newer_than`. If another one has arrived since, either may be the newer
  /// one: then the stricter is kept, unless nothing of it counts any more, and this one ends no
  /// denial.
  void record(const KeyName& name, const Request& request, const Decision& told,
              std::optional<Instant> sent, Instant at, Instant newer_than = kMaxInt64);

  /// For a request that is about to be sent: whether a denial of its key was recorded or cleared,
  /// as far as is remembered, lately enough to matter while the store answers, or one of a few keys
  /// was refunded or reset at `now` or later. If not, denies() is false, unless another thread is
  /// recording a denial at this moment, and a lower bound of the send time will do for record().
  /// Prefetches what record() needs.
  bool was_denied(const KeyName& name, Instant now) const;

  /// Whether the request is denied now; if so, sets `decision` (Source::kCache). REQUIRES: `name`
  /// is that of the request's key; the request is a kTake or a kTakeUpTo.
  bool denies(const KeyName& name, const Request& request, Instant now, Decision& decision) const;

  /// A refund in this process may have ended the key's denial: denies() does not use it any more,
  /// nor denials of requests sent up to `now`. A reset ends the denial in any case, and denials of
  /// requests sent up to `now` are not remembered.
  void ask_again(const KeyName& name, Instant now, bool is_reset);

  /// The key is being blocked here, at `now`.
  void note_block(const KeyName& name, Instant now);

  struct NewlyTold : Told {
    bool is_open = false;  ///< Something remained or was admitted since: it was not blocked.
  };
  /// What the store denied, and until when; 0: nothing.
  struct Denied {
    std::int64_t cost = 1;
    std::int64_t patience_ns = kDefaultPatience;
    Instant until = 0;
  };
  /// What the store told of a key since the last call for this key.
  struct News {
    /// Of each part of its limit. Nothing where it has told nothing new. Of a limit of one part,
    /// that is what record() was told.
    std::array<std::optional<NewlyTold>, kMaxParts> parts;
    /// The latest denial, if it is under the same numbers and nothing has remained since.
    Denied denied;
  };
  News take_new(const KeyName& name, const LimitDefinition& limit);

 private:
  /// What was told of a key or of a part of it. Half a cache line.
  struct ToldEntry {
    std::uint64_t tag : kTagBits;
    bool is_new : 1;         ///< take_new() has not returned it.
    bool is_open : 1;        ///< See NewlyTold.
    bool may_be_denied : 1;  ///< It was denied, or asked again: `denials_` may have it.
    Told told;

    void tell(const AnyPart& part, const Decision& decision, Instant at, Instant newer_than,
              bool shows_open);
    Instant ends_at() const { return told.reset_at; }
  };

  /// The latest denial of a key. A cache line. It counts only while the entry of what was told
  /// `may_be_denied`.
  struct alignas(64) Denial {
    std::uint64_t tag;
    Instant sent_at;  ///< When its request was sent, or earlier: see ask_again().
    Instant until;    ///< When it ends; 0: it is over.
    /// What was denied.
    std::int64_t cost;
    std::int64_t patience_ns;
    /// A hash of the expression of the limit that denied.
    std::uint32_t numbers;
    std::uint8_t binding;
    bool had_nothing;  ///< Nothing has remained since.

    bool covers(const Request& request) const;
    // Whether the store may allow now what it denied. REQUIRES: until != 0; `answer` allows.
    bool is_over(const Request& request, const Decision& answer) const;
    Instant ends_at() const { return until; }
  };

  struct alignas(64) Shard {
    Lock lock;
    // Guarded by lock, as are the shard's entries:
    Instant refunded_at = -1;  // When a key was last refunded here.
    Instant reset_at = -1;     // When a key was last reset here.
    Instant blocked_at = -1;   // When a key was last blocked here.
    // Written under lock, read without it: from then on no denial here is used while the store
    // answers.
    std::atomic<Instant> quiet_from{0};
  };

  static constexpr std::size_t kShards = TagTable<ToldEntry>::kShards;
  static_assert(sizeof(ToldEntry) == 32 && sizeof(Denial) == 64);

  static std::uint64_t tag_of(const KeyName& name, std::size_t index = 0);
  static std::uint64_t tag_of_part(const KeyName& name, std::size_t parts, std::size_t part);
  static std::size_t number_of(const KeyName& name) { return name.key.low % kShards; }
  Denial* denial_of(const KeyName& name, const ToldEntry& told) const;
  void note_denial(Shard& shard, Instant now) const;

  const bool keeps_all_;
  const std::int64_t hold_ns_;
  mutable std::array<Shard, kShards> shards_;
  TagTable<ToldEntry> told_;  // Index 0 is the whole limit, the next are the parts of an `&`.
  TagTable<Denial> denials_;
};

}  // namespace sluice
