#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/algorithm.h"
#include "core/permits.h"
#include "core/ring.h"
#include "stores/memcached/value_codec.h"

namespace sluice::memcached {

/// The state of one part of a limit. That of any algorithm is a few integers, a ring or a list of
/// permits, so that none is named here. Whatever is asked of it names the part that it is of.
///
/// To be used again and again: it keeps the room it has. Not thread-safe.
class PartState {
 public:
  using Numbers = std::array<std::uint64_t, 3>;

  /// What a transition leaves; of what the part's algorithm has no use for, nothing.
  struct Change {
    Numbers numbers{};
    RingChange ring;
    PermitChange permits;
  };
  struct Judged {
    Decision decision;
    Change change;
  };

  /// As if never seen.
  void clear();
  /// Whether it is so, whatever the instant.
  bool is_fresh() const;

  /// The transition of an operation, of which nothing is kept.
  Judged judge(const AnyPart& part, Operation operation, const Call& call) const;
  void commit(const AnyPart& part, const Change& change);

  /// Reads what write() wrote. What cannot be one of this part's states fails the reader.
  void read(const AnyPart& part, ValueReader& reader);
  /// Integers as they are; the entries of a ring and the permits as differences.
  void write(const AnyPart& part, ValueWriter& writer) const;

 private:
  template <class A>
  typename A::State load() const;
  Ring ring() const;
  void commit_ring(const RingChange& change);
  void commit_permits(const PermitChange& change);
  void read_ring(ValueReader& reader);
  void read_permits(ValueReader& reader);
  void write_ring(ValueWriter& writer) const;
  void write_permits(ValueWriter& writer) const;

  Numbers numbers_{};
  // A ring's, of which those before `first_` have been forgotten, and the total before that.
  std::vector<RingEntry> slots_;
  std::uint32_t first_ = 0;
  std::uint64_t base_ = 0;
  std::vector<PermitEntry> permits_;
};

}  // namespace sluice::memcached
