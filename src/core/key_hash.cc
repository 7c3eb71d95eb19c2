#include "core/key_hash.h"

#include <sys/random.h>

#include <string_view>

#include "sluice/store.h"

namespace sluice {

HashSecret HashSecret::random() {
  HashSecret secret;
  if (getrandom(secret.bytes.data(), secret.bytes.size(), 0) !=
      static_cast<ssize_t>(secret.bytes.size())) {
    throw StoreError("the system has no random bytes for the secret that keys are hashed under");
  }
  return secret;
}

HashSecret HashSecret::fixed() {
  constexpr std::string_view kSeed = "sluice";
  HashSecret secret;
  XXH3_generateSecret(secret.bytes.data(), secret.bytes.size(), kSeed.data(), kSeed.size());
  return secret;
}

KeyHash internal::hash_long(std::string_view key, const HashSecret& secret) {
  return hash_with(key, secret);
}

}  // namespace sluice
