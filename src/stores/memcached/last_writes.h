#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/instant.h"

namespace sluice::memcached {

/// The values that this process has written last, with their tokens, so that the next one for the
/// key can be written without reading it: where somebody else has written meanwhile, the token no
/// longer fits. What is remembered is never an answer by itself.
///
/// It is a cache: of a key that others change as well nothing is said, and any key may be forgotten
/// for others. Not thread-safe.
class LastWrites {
 public:
  /// At most so many keys, and values of so many bytes. What keeps them takes up to 64 bytes a key.
  static constexpr std::size_t kMaxKeys = std::size_t{1} << 18;
  static constexpr std::size_t kMaxBytes = std::size_t{32} << 20;

  /// Two keys may have the same: no token of one fits a value of the other.
  static std::uint64_t hash_of(std::string_view name);

  struct Key {
    Key(std::uint64_t name_hash, std::uint32_t on) : hash(name_hash), connection(on) {}
    Key(std::string_view name, std::uint32_t on) : Key(hash_of(name), on) {}

    std::uint64_t hash;
    /// Lane::connection() of the key's lane: a token means nothing on another connection.
    std::uint32_t connection;
  };
  struct Write {
    std::string_view value;
    /// Not 0.
    std::uint64_t token = 0;
    /// Until then the server keeps it, unless it forgets it early.
    Instant until = 0;
  };

  LastWrites();

  /// Asks for the place of a key from main memory; later for the value that is there, if it is its.
  void prefetch_place(std::uint64_t hash) const;
  void prefetch_value(std::uint64_t hash) const;

  /// What stands at the server unless somebody else has written since; nothing where that is
  /// unknown, or to be expected. Valid until the next call of another member.
  std::optional<Write> find(const Key& key, Instant now) const;

  void remember(const Key& key, const Write& write);
  /// The key's value has been found to have this token, or another than was remembered (0): whether
  /// somebody else has written since.
  void found(const Key& key, std::uint64_t token);
  void forget(const Key& key);

 private:
  struct alignas(64) Slot {
    std::uint64_t hash = 0;
    std::uint64_t token = 0;  // 0: the slot is empty.
    Instant until = 0;
    std::uint32_t connection = 0;
    bool contested = false;  // Somebody else has written after the write before.
    std::string value;
  };
  static_assert(sizeof(Slot) == 64);

  static std::vector<Slot> make_slots(std::size_t count);
  std::size_t place_of(std::uint64_t hash, std::size_t way) const;
  const Slot* find_slot(const Key& key) const;
  Slot* find_slot(const Key& key);
  Slot& make_slot(std::uint64_t hash);
  void grow();
  void assign(Slot& slot, std::string_view value);
  void drop(Slot& slot);

  std::vector<Slot> slots_;  // Sets of a few, each a power of two.
  std::size_t used_ = 0;
  std::size_t bytes_ = 0;  // The capacity of the values of those.
  std::size_t hand_ = 0;   // Goes round where there are too many bytes.
};

}  // namespace sluice::memcached
