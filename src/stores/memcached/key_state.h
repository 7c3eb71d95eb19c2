#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/judge_parts.h"
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
  /// Makes it fresh.
  void clear();
  /// Whether it is fresh at every instant.
  bool is_fresh() const;

  /// The decision of an operation, without carrying it out.
  Decision judge(const AnyPart& part, Operation operation, const Call& call) const;
  /// Carries it out. REQUIRES: judge() allows it.
  void commit(const AnyPart& part, Operation operation, const Call& call);

  /// Reads what write() wrote. If the bytes cannot be a state of this part, the reader fails.
  void read(const AnyPart& part, ValueReader& reader);
  /// Writes integers as they are, and the entries of a ring and permits as differences.
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
  // The entries of a ring, of which those before `first_` have been forgotten, and the total before
  // that.
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
/// hash over all of it. Integers have 7 bits a byte.
///
/// Can be used for one key after the other. Not thread-safe.
class KeyState {
 public:
  /// Makes it fresh.
  void clear();

  /// Reads what write() wrote. False if it is no such value: the state is then as after clear(), as
  /// it is if the value was made by a limit that cannot be read, of a later version of Sluice.
  /// `asked`, the limit that the value was most likely made by, outlives the judging.
  bool read(std::string_view value, const LimitDefinition& asked);

  /// Decides a request and commits the change. If the state was made by a limit from which this one
  /// cannot go on, the key is fresh, and a block around it is gone as well. The request's limit
  /// outlives the judging. REQUIRES: now is an instant, not kStoreTime.
  Decision decide(const Request& request, Instant now);

  /// Whether anything has been committed since clear() or read().
  bool changed() const { return changed_; }
  /// Whether the key is fresh at every instant, so that no value is needed.
  bool is_gone() const;
  /// How long the key differs from fresh after the last commit, by this limit and by those that
  /// could go on from its states; a block counts.
  std::int64_t lifetime_ns() const { return lifetime_ns_; }

  /// Appends the value. REQUIRES: not is_gone().
  void write(std::string& output) const;

 private:
  bool read_states(std::string_view expression, ValueReader& reader, const LimitDefinition& asked);
  // What judge_parts() calls: judges a part of this state.
  auto judge_of(const LimitDefinition& limit) const;
  PartDecisions judge(const Request& request, Operation operation, const Call& call) const;
  Decision block(const Request& request, Instant now);
  void make_readable(const LimitDefinition& limit);
  void committed(const PartDecisions& decisions, Instant now);

  std::array<PartState, kMaxParts> states_;
  // The limit by which the states were made; null while there are none.
  const LimitDefinition* made_by_ = nullptr;
  bool readable_ = false;  // The limit that is judged can go on from the states.
  // When the block ends; 0 if there is none. A block that has ended counts as none.
  Instant blocked_until_ = 0;
  bool changed_ = false;
  std::int64_t lifetime_ns_ = 0;
  // The limit of the last value that another limit than `asked` has made.
  LimitDefinition parsed_;
};

}  // namespace sluice::memcached
