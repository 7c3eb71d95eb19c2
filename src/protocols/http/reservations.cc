#include "protocols/http/reservations.h"

#include <array>
#include <charconv>

#include "waiting/requests.h"

namespace sluice::http {
namespace {

constexpr int kHexadecimal = 16;
constexpr std::size_t kDigits = 16;
constexpr std::size_t kNumbers = 3;

void append_digits(std::string& text, std::uint64_t number) {
  std::array<char, kDigits> digits;
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), number, kHexadecimal).ptr;
  const auto size = static_cast<std::size_t>(end - digits.data());
  text.append(kDigits - size, '0').append(digits.data(), size);
}

// Reads the numbers of a name, with a dot between them.
bool read_name(std::string_view text, std::array<std::uint64_t, kNumbers>& numbers) {
  if (text.size() != kNumbers * kDigits + kNumbers - 1) return false;
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const std::string_view digits = text.substr(i * (kDigits + 1), kDigits);
    const char* const end = digits.data() + kDigits;
    const auto [stop, error] = std::from_chars(digits.data(), end, numbers[i], kHexadecimal);
    if (error != std::errc{} || stop != end) return false;
    if (i + 1 < kNumbers && *end != '.') return false;
  }
  return true;
}

}  // namespace

Reservations::Reservations() : server_(new_permit_id()) {}

std::optional<Reservations::Place> Reservations::take_place(Instant now) {
  const std::lock_guard lock(mutex_);
  forget_expired(now);
  if (held_ == kMost) return std::nullopt;
  ++held_;
  return Place(*this);
}

void Reservations::give_back_place() {
  const std::lock_guard lock(mutex_);
  --held_;
}

std::string Reservations::hold(Place place, Reserved reserved, Instant now) {
  const std::uint64_t secret = new_permit_id();
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    place.owner_ = nullptr;
    number = next_++;
    entries_.emplace(number, Entry{secret, std::move(reserved)});
    const Instant expires = now + kExpiresNs;
    if (expiries_.empty() || expires >= expiries_.back().at + kTogetherNs) {
      expiries_.push_back({expires, number});
    }
  }
  std::string name;
  append_digits(name, server_);
  append_digits(name += '.', number);
  append_digits(name += '.', secret);
  return name;
}

Reservations::Found Reservations::take(std::string_view name, Instant now, Reserved& reserved) {
  std::array<std::uint64_t, kNumbers> numbers{};
  if (!read_name(name, numbers)) return Found::kUnknown;
  const auto [server, number, secret] = numbers;
  if (server != server_) return Found::kElsewhere;
  const std::lock_guard lock(mutex_);
  forget_expired(now);
  if (number < oldest_ || number >= next_) return Found::kUnknown;
  const auto at = entries_.find(number);
  if (at == entries_.end()) return Found::kCommitted;
  if (at->second.secret != secret) return Found::kUnknown;
  reserved = std::move(at->second.reserved);
  entries_.erase(at);
  --held_;
  return Found::kHeld;
}

void Reservations::forget_expired(Instant now) {
  while (!expiries_.empty() && expiries_.front().at + kTogetherNs <= now) {
    expiries_.pop_front();
    const std::uint64_t end = expiries_.empty() ? next_ : expiries_.front().first;
    for (; oldest_ < end; ++oldest_) held_ -= entries_.erase(oldest_);
  }
}

}  // namespace sluice::http
