#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::memcached {

/// Which of several servers has a key, the same one for everybody who knows the same servers, in
/// whatever order. Rendezvous hashing: each server draws a number for the key and the largest wins,
/// so that a server added to n - 1 others takes 1/n of the keys from them, and one removed leaves
/// the others' keys where they are.
class ServerRing {
 public:
  /// `servers`: what each is called, at least one, no two alike.
  explicit ServerRing(const std::vector<std::string>& servers);

  /// The index of the key's server.
  std::size_t server_of(std::string_view key) const;

 private:
  std::vector<std::uint64_t> seeds_;
};

}  // namespace sluice::memcached
