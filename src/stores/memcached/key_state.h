#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/algorithm.h"
#include "core/limit_syntax.h"
#include "core/permits.h"
#include "core/ring.h"
#include "core/store.h"
#include "stores/memcached/value_codec.h"

namespace sluice::memcached {

/// The state of one part of a limit. That of any algorithm is a few integers, a ring or a list of
/// permits, so that no algorithm is named here. Each call names the part whose state it is.
///
/// Can be used for one state after the other. Not thread-safe.
class PartState {
 public:
  /// As if never seen.
  void clear();
  /// Whether it is so, whatever the instant.
  bool is_fresh() const;

  /// What an operation answers.
  Decision judge(const AnyPart& part, Operation operation, const Call& call) const;
  /// Carries it out. REQUIRES: judge() allows it.
  void commit(const AnyPart& part, Operation operation, const Call& call);

  /// Reads what write() wrote. What cannot be a state of this part fails the reader.
  void read(const AnyPart& part, ValueReader& reader);
  /// Integers as they are; the entries of a ring and the permits as differences.
  void write(const AnyPart& part, ValueWriter& writer) const;

 private:
  // Of a state of integers; a ring and a list of permits have their own.
  template <class State>
  State load() const;
  template <class State>
  void store(const State& state);
  template <class State>
  void read_as(ValueReader& reader);
  template <class State>
  void write_as(ValueWriter& writer) const;

  std::array<std::uint64_t, 3> numbers_{};
  // A ring's, of which those before `first_` have been forgotten, and the total before that.
  std::vector<RingEntry> slots_;
  std::uint32_t first_ = 0;
  std::uint64_t base_ = 0;
  std::vector<PermitEntry> permits_;
};

/// One key's state as a server keeps it: a value that says by which limit it was made, and holds
/// the state of each of its parts. Read, judged by the algorithms' own transitions, and written
/// back.
///
/// A value is: a byte for the version; if the key has been blocked, which is a version of its own,
/// the end of the block; the limit's canonical expression; the state of each part; 32 bits of a
/// hash over all of it. Integers have 7 bits a byte. A key that is blocked and otherwise fresh has
/// an empty expression and no states: its block stands for every limit that asks.
///
/// Can be used for one key after the other. Not thread-safe.
class KeyState {
 public:
  /// As if never seen.
  void clear();

  /// Reads what write() wrote. False if it is no such value: the state is then as after clear(), as
  /// it is if the value was made by a limit that cannot be read, of a later version of Sluice.
  /// `asked`, the limit that the value was most likely made by, outlives the judging.
  bool read(std::string_view value, const LimitDefinition& asked);

  /// Answers a request and commits what it changes. If the state was made by a limit from which
  /// this one cannot go on, the key is fresh, and a block around it is gone as well. The request's
  /// limit outlives the judging. REQUIRES: now is an instant, not kStoreTime.
  Decision judge(const Request& request, Instant now);

  /// Whether anything has been committed since clear() or read().
  bool changed() const { return changed_; }
  /// Whether nothing is left to be kept: as if never seen, whatever the instant.
  bool is_gone() const { return gone_; }
  /// How long what was committed last differs from fresh, from that instant on; a block counts.
  std::int64_t lifetime_ns() const { return lifetime_ns_; }

  /// Appends the value.
  void write(std::string& output) const;

 private:
  bool read_states(std::string_view expression, ValueReader& reader, const LimitDefinition& asked);
  Instant standing_until() const;
  const PartState& state_of(std::size_t index) const;
  std::int64_t remaining(const LimitDefinition& limit, Instant now) const;
  Decision judge_together(const LimitDefinition& limit, Operation operation, const Call& call,
                          Instant until, std::span<Decision> wanted);
  Call call_of(const Request& request, Instant now) const;
  Decision block(const Request& request, Instant now);
  void commit(const LimitDefinition& limit, Operation operation, const Call& call);
  void committed(Instant now);

  std::array<PartState, kMaxParts> states_;
  // The limit by which the states were made; null while there are none.
  const std::vector<AnyPart>* parts_ = nullptr;
  std::string_view expression_;
  bool readable_ = false;  // The limit that is judged can go on from the states.
  // When the block ends; 0 if there is none. Once it is over it is as if there was none.
  Instant blocked_until_ = 0;
  bool changed_ = false;
  bool gone_ = true;
  std::int64_t lifetime_ns_ = 0;
  // How long the key differs from fresh after what was judged last, of all parts and the block.
  std::int64_t judged_lifetime_ns_ = 0;
  // The limit of the last value that was made by another one than `asked`.
  std::vector<AnyPart> parsed_;
  std::string parsed_expression_;
};

}  // namespace sluice::memcached
