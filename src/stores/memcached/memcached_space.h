#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "stores/memcached/meta_protocol.h"

namespace sluice::memcached {

/// The item keys of one limit: `prefix:space:key`, where bytes of the space that would separate or
/// are not allowed in a key are written as %xx. If that is too long, or the key has a blank, a
/// control character or a byte above 126, the item's key is `prefix::` and 128 bits of SHA-256 in
/// hex. No space is empty, so a readable item key never equals such a one.
///
/// Immutable: safe to share between threads.
class MemcachedSpace final : public Space {
 public:
  /// REQUIRES: is_prefix(prefix), or that and up to 32 more of its characters.
  MemcachedSpace(std::string_view prefix, const LimitDefinition& limit);

  /// Sets `name` to the item's key.
  void name_of(std::string_view key, std::string& name) const;

  const std::vector<AnyPart>& parts() const { return parts_; }

 private:
  std::string prefix_;
  std::string begin_;  // What all names begin with.
  std::vector<AnyPart> parts_;
};

inline constexpr std::size_t kMaxPrefixBytes = 64;

/// Whether the text can be a prefix: 1 to 64 characters from '!' to '~' without ':', which ends it.
bool is_prefix(std::string_view text);

}  // namespace sluice::memcached
