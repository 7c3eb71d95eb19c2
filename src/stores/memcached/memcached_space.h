#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "stores/memcached/meta_protocol.h"

namespace sluice::memcached {

/// The keys of one limit, as servers know them: `prefix:space:key`, where a byte of the space that
/// would separate, or that no key may hold, stands as %xx. Where that is too long, or the
/// key has a blank, a control character or a byte above 126, it is `prefix::` and 128 bits of
/// SHA-256 in hex: no space is empty, so that no readable key looks like it.
///
/// Immutable: safe to share between threads.
class MemcachedSpace final : public Space {
 public:
  /// REQUIRES: is_prefix(prefix), or that and up to 32 more of its characters.
  MemcachedSpace(std::string_view prefix, const LimitDefinition& limit);

  /// Sets `name` to what the servers call the key.
  void name_of(std::string_view key, std::string& name) const;

  const std::vector<AnyPart>& parts() const { return parts_; }

 private:
  std::string prefix_;
  std::string begin_;  // What all names begin with.
  std::vector<AnyPart> parts_;
};

inline constexpr std::size_t kMaxPrefixBytes = 64;

/// Whether keys can begin so: 1 to 64 characters from '!' to '~' without ':', which ends it.
bool is_prefix(std::string_view text);

}  // namespace sluice::memcached
