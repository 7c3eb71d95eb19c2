#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/limit_syntax.h"
#include "core/store.h"
#include "stores/memcached/part_state.h"

namespace sluice::memcached {

/// One key's state as a server keeps it: a value that says by which limit it was made, and holds
/// the state of each of its parts. Read, judged by the algorithms' own transitions, and written
/// back.
///
/// A value is: a byte for the version; where the key has been blocked, which is a version of its
/// own, the end of the block; the limit's canonical expression; the state of each part; 32 bits of
/// a hash over all of it. Integers have 7 bits a byte. A key that is blocked and otherwise fresh
/// has an empty expression and no states: its block stands whichever limit asks.
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

  /// Answers a request and commits what it changes. Where the state was made by a limit from which
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
  bool goes_on(const LimitDefinition& limit) const;
  Instant standing_until() const;
  const PartState& state_of(std::size_t index) const;
  Decision peek(const LimitDefinition& limit, Instant now) const;
  Decision judge_together(const LimitDefinition& limit, Operation operation, const Call& call);
  Decision take_up_to(const LimitDefinition& limit, const Call& call);
  Decision judge_unblocked(const Request& request, Instant now);
  Decision block(const Request& request, Instant now);
  Decision reset(const Request& request, Instant now);
  void drop_states();
  void commit(const LimitDefinition& limit);
  void committed(Instant now, const Decision& decision);

  std::array<PartState, kMaxParts> states_;
  std::array<PartState::Judged, kMaxParts> judged_;
  // By which the states were made; null while there are none.
  const std::vector<AnyPart>* parts_ = nullptr;
  std::string_view expression_;
  bool readable_ = false;  // The states mean something to the limit that is judged.
  // When the block ends; 0 where there is none. Once it is over it is as if there was none.
  Instant blocked_until_ = 0;
  bool changed_ = false;
  bool gone_ = true;
  std::int64_t lifetime_ns_ = 0;
  // The limit of the last value that was made by another than the one asked for.
  std::vector<AnyPart> parsed_;
  std::string parsed_expression_;
};

}  // namespace sluice::memcached
