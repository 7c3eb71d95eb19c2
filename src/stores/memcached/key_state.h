#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "algorithms/judge_parts.h"
#include "algorithms/limit_definition.h"
#include "algorithms/state_codec.h"
#include "core/algorithm.h"
#include "core/limit_syntax.h"
#include "core/store.h"
#include "stores/memcached/memcached_space.h"

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

  /// Reads what write() wrote, into a fresh state. False if it cannot be a state of this part; if
  /// it is too short, the reader has failed.
  bool read(const AnyPart& part, ByteReader& reader);
  void write(const AnyPart& part, ByteWriter& writer) const;

 private:
  // Of a state of integers; a ring and a list of permits have their own.
  template <class State>
  State load() const;
  template <class State>
  void store(const State& state);

  PartImage image_;
  // The entries of a ring before this one have been forgotten; the total before it.
  std::uint32_t first_ = 0;
  std::uint64_t base_ = 0;
};

/// One key's state as a server keeps it: a value with the state of each part of a limit. Read,
/// judged by the algorithms' own transitions, and written back.
///
/// A value is: a byte that marks it; the kind of the states (8 bytes); the end of the key's block,
/// or 0 (8); the state of each part; 32 bits of a hash over all of it. Numbers have their lowest
/// byte first.
///
/// Can be used for one key after the other. All that is asked of it between two calls of clear() or
/// read() is asked by limits of one kind, whose keys keep their states. Not thread-safe.
class KeyState {
 public:
  /// Makes it fresh.
  void clear();

  /// Reads what write() wrote. False if it is no such value: the state is then as after clear(), as
  /// it is if the value is of another kind than the space.
  bool read(std::string_view value, const MemcachedSpace& space);

  /// Decides a request and commits the change. REQUIRES: now is an instant, not kStoreTime.
  Decision decide(const Request& request, Instant now);

  /// Whether anything has been committed since clear() or read().
  bool changed() const { return changed_; }
  /// Whether the key is fresh at every instant, so that no value is needed.
  bool is_gone() const;
  /// How long the key differs from fresh after the last commit, by this limit and by those that
  /// could go on from its states; a block counts.
  std::int64_t lifetime_ns() const { return lifetime_ns_; }

  /// Appends the value, as one of this space.
  void write(const MemcachedSpace& space, std::string& output) const;

 private:
  // What judge_parts() calls: judges a part of this state.
  auto judge_of(const LimitDefinition& limit) const;
  PartDecisions judge(const Request& request, Operation operation, const Call& call) const;
  Decision block(const Request& request, Instant now);
  void committed(const LimitDefinition& limit, const PartDecisions& decisions, Instant now);

  std::array<PartState, kMaxParts> states_;
  std::size_t used_ = 0;  // Those after so many are fresh, and need not be cleared.
  // When the block ends; 0 if there is none. A block that has ended counts as none.
  Instant blocked_until_ = 0;
  bool changed_ = false;
  std::int64_t lifetime_ns_ = 0;
};

}  // namespace sluice::memcached
