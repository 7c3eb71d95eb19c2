#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/limit_syntax.h"
#include "core/ring.h"
#include "core/store.h"

namespace sluice::memcached {

/// One key's state as a server keeps it: a value that says by which limit it was made, and holds
/// the state of each of its parts. Read, judged by the algorithms' own transitions, and written
/// back. Any algorithm's state is either a few integers or a ring, so none is named here.
///
/// A value is: a byte for the version; the limit's canonical expression; for each part its
/// integers, or its entries as differences; 32 bits of a hash over all of it. Integers have 7 bits
/// a byte.
///
/// To be used again and again: it keeps the room it has. Not thread-safe.
class KeyState {
 public:
  /// As if never seen.
  void clear();

  /// Reads what write() wrote. False where it is no such value: the state is then as after clear(),
  /// and so it is where the value was made by a limit that cannot be read, of a later version.
  /// `asked`, the limit that it is most likely to have been made by, outlives the judging.
  bool read(std::string_view value, const LimitDefinition& asked);

  /// Answers a request and commits what it takes, gives back or resets. Where the state was made by
  /// a limit from which this one cannot go on, the key is fresh. The request's limit outlives the
  /// judging. REQUIRES: now is an instant, not kStoreTime.
  Decision judge(const Request& request, Instant now);

  /// Whether anything has been committed since clear() or read().
  bool changed() const { return changed_; }
  /// Whether nothing is left to be kept: as if never seen, whatever the instant.
  bool is_gone() const { return gone_; }
  /// How long what was committed last differs from fresh, from that instant on.
  std::int64_t lifetime_ns() const { return lifetime_ns_; }

  /// Appends the value.
  void write(std::string& output) const;

 private:
  using Numbers = std::array<std::uint64_t, 3>;

  /// A ring's slots, of which those before `first` have been forgotten, or the integers of any
  /// other state.
  struct PartState {
    Numbers numbers{};
    std::vector<RingEntry> slots;
    std::uint32_t first = 0;
    std::uint64_t base = 0;

    void clear();
    Ring ring() const;
  };
  struct PartChange {
    Numbers numbers{};
    RingChange ring;
  };
  struct Judged {
    Decision decision;
    PartChange change;
  };
  class Reader;

  template <class A>
  static typename A::State load(const PartState& state);
  static Judged judge_part(const AnyPart& part, const PartState& state, Operation operation,
                           const Call& call);
  static void read_part(Reader& reader, const AnyPart& part, PartState& state);
  static void write_part(std::string& output, const AnyPart& part, const PartState& state);
  static void commit_part(const AnyPart& part, const PartChange& change, PartState& state);

  Decision judge_together(const Request& request, Instant now);
  bool goes_on(const LimitDefinition& limit) const;
  void commit(const LimitDefinition& limit, const Decision& decision);
  const PartState& state_of(std::size_t index) const;

  std::array<PartState, kMaxParts> states_;
  std::array<Judged, kMaxParts> judged_;
  // By which the states were made; null while there are none.
  const std::vector<AnyPart>* parts_ = nullptr;
  std::string_view expression_;
  bool readable_ = false;  // The states mean something to the limit that is judged.
  bool changed_ = false;
  bool gone_ = true;
  std::int64_t lifetime_ns_ = 0;
  // The limit of the last value that was made by another than the one asked for.
  std::vector<AnyPart> parsed_;
  std::string parsed_expression_;
};

}  // namespace sluice::memcached
