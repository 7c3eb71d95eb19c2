#include "protocols/http/reservations.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cassert>

#include "core/ascii.h"
#include "core/read_number.h"
#include "service/access.h"
#include "waiting/requests.h"

namespace sluice::http {
namespace {

constexpr std::size_t kDigits = 16;
constexpr std::size_t kSecretDigits = 32;

struct Name {
  std::uint64_t server = 0;
  std::uint64_t number = 0;
  std::string_view secret;
};

// Reads a name: two numbers and the secret, separated by dots.
bool read_name(std::string_view text, Name& name) {
  if (text.size() != 2 * (kDigits + 1) + kSecretDigits) return false;
  for (std::uint64_t* const number : {&name.server, &name.number}) {
    if (!read_number(text.substr(0, kDigits), *number, 16) || text[kDigits] != '.') return false;
    text.remove_prefix(kDigits + 1);
  }
  name.secret = text;
  return true;
}

// Takes the same time wherever they differ.
bool are_equal(std::string_view a, std::string_view b) {
  assert(a.size() == b.size());
  return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

Reservations::Reservations() : server_(new_permit_id()), secrets_(make_token()) {}

std::string Reservations::secret_of(std::uint64_t number) const {
  return secrets_.key(hex(number, kDigits));
}

std::optional<Reservations::Place> Reservations::take_place(std::size_t key_bytes, Instant now) {
  const std::lock_guard lock(mutex_);
  const auto is_full = [&] { return held_ >= kMost || key_bytes > kMostKeyBytes - key_bytes_; };
  while (forget_expired(now) && is_full()) continue;
  if (is_full()) return std::nullopt;
  ++held_;
  key_bytes_ += key_bytes;
  return Place(*this, key_bytes);
}

void Reservations::return_place(std::size_t key_bytes) {
  const std::lock_guard lock(mutex_);
  --held_;
  key_bytes_ -= key_bytes;
}

// REQUIRES: mutex_ is held.
void Reservations::erase(std::uint64_t number) {
  const auto at = entries_.find(number);
  if (at == entries_.end()) return;
  --held_;
  key_bytes_ -= at->second.reserved.key.size();
  entries_.erase(at);
}

std::string Reservations::hold(Place place, Reserved reserved, Instant now) {
  assert(place.owner_ == this && place.key_bytes_ == reserved.key.size());
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    place.owner_ = nullptr;
    number = next_++;
    entries_.emplace(number, Entry{.reserved = std::move(reserved)});
    const Instant expires = now + kExpiresNs;
    if (expiries_.empty() || expires >= expiries_.back().at + kTogetherNs) {
      expiries_.push_back({expires, number});
    }
  }
  return hex(server_, kDigits) + '.' + hex(number, kDigits) + '.' + secret_of(number);
}

Reservations::CommitStart Reservations::begin_commit(std::string_view text, Instant now) {
  Name name;
  if (!read_name(text, name)) return {};
  if (name.server != server_) return {.found = Found::kElsewhere};
  // Checked before anything else, because the number is easy to guess.
  if (!are_equal(name.secret, secret_of(name.number))) return {};
  const std::lock_guard lock(mutex_);
  forget_expired(now);
  if (name.number < first_held(now) || name.number >= next_) return {};
  const auto at = entries_.find(name.number);
  if (at == entries_.end()) return {.found = Found::kCommitted};
  if (at->second.is_committing) return {.found = Found::kCommitting};
  at->second.is_committing = true;
  return {Found::kHeld, at->second.reserved, Commit(*this, name.number)};
}

void Reservations::end_commit(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  erase(number);
}

void Reservations::put_back(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(number);
  if (at != entries_.end()) at->second.is_committing = false;
}

// The number of the first reservation that has not expired. REQUIRES: mutex_ is held.
std::uint64_t Reservations::first_held(Instant now) const {
  const auto has_expired = [&](const Expiry& expiry) { return expiry.at + kTogetherNs <= now; };
  const auto first = std::ranges::partition_point(expiries_, has_expired);
  return first == expiries_.end() ? next_ : first->first;
}

// Returns whether there may be more. REQUIRES: mutex_ is held.
bool Reservations::forget_expired(Instant now) {
  const std::uint64_t end = std::min(first_held(now), oldest_ + kForgottenAtOnce);
  for (; oldest_ < end; ++oldest_) erase(oldest_);
  // Those before have no number left.
  while (!expiries_.empty() && (expiries_.size() > 1 ? expiries_[1].first : next_) <= oldest_) {
    expiries_.pop_front();
  }
  return oldest_ < first_held(now);
}

}  // namespace sluice::http
