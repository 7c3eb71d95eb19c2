#include "limiter/permit_id.h"

#include <sys/random.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

#include "limiter/timekeeper.h"

namespace sluice {
namespace {

/// A thread's supply: SipHash-1-3 (Aumasson, Bernstein) of 1, 2, 3 and so on, under a secret of the
/// system's. To ask the system for each one would cost more than all the rest.
struct Supply {
  std::array<std::uint64_t, 2> secret;
  std::uint64_t count = 0;  // of those that were given under this secret
  /// A child of fork() does not use what its parent has, too.
  std::uint64_t generation = 0;

  void refill() {
    std::span<std::byte> bytes = std::as_writable_bytes(std::span(secret));
    while (!bytes.empty()) {
      const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        throw std::system_error(errno, std::generic_category(), "no random numbers for permits");
      }
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
    count = 0;
  }

  // The message is `number`, 8 bytes; its length stands in the last block.
  std::uint64_t hash(std::uint64_t number) const {
    std::uint64_t v0 = secret[0] ^ 0x736f6d6570736575U;
    std::uint64_t v1 = secret[1] ^ 0x646f72616e646f6dU;
    std::uint64_t v2 = secret[0] ^ 0x6c7967656e657261U;
    std::uint64_t v3 = secret[1] ^ 0x7465646279746573U;
    const auto round = [&] {
      v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
      v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
    };
    for (const std::uint64_t block : {number, std::uint64_t{8} << 56U}) {
      v3 ^= block;
      round();
      v0 ^= block;
    }
    v2 ^= 0xffU;
    for (int i = 0; i < 3; ++i) round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

constexpr std::uint64_t kMostUnderOneSecret = std::uint64_t{1} << 20U;

}  // namespace

PermitId new_permit_id() {
  thread_local Supply supply{.secret = {}, .count = kMostUnderOneSecret};
  for (;;) {
    const std::uint64_t generation = fork_generation();
    if (supply.count == kMostUnderOneSecret || supply.generation != generation) {
      supply.refill();
      supply.generation = generation;
    }
    const PermitId id = supply.hash(++supply.count);
    if (id != 0) return id;
  }
}

}  // namespace sluice
