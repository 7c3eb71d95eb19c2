#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "algorithms/counted_for.h"
#include "core/instant.h"
#include "service/limit_registry.h"
#include "sluice/decision.h"
#include "sluice/keys.h"

namespace sluice::http {

/// The reservations that this server has granted and that are not committed yet. Thread-safe.
class Reservations {
 public:
  static constexpr std::size_t kMost = 100'000;
  /// The most bytes of their keys together.
  static constexpr std::size_t kMostKeyBytes = std::size_t{64} << 20;
  static constexpr std::int64_t kExpiresNs = 60 * kSecondNs;

  struct Reserved {
    std::shared_ptr<const RegisteredLimit> limit = {};
    std::string key = {};
    std::int64_t cost = 0;
    /// The source that granted the units, to which they are returned.
    Source giver = Source::kStore;
    /// How many units its limit admits at once.
    std::int64_t most_at_once = 0;
    /// Before the store was asked.
    Instant asked_at = 0;
    std::uint64_t wakings = 0;  ///< WaitingCallers::wakings()
    CountedFor counted_for = {};
  };

  /// A place for a reservation while its request is under way. Freed on destruction unless it is
  /// used.
  class Place {
   public:
    Place(Reservations& owner, std::size_t key_bytes) : owner_(&owner), key_bytes_(key_bytes) {}
    ~Place() {
      if (owner_ != nullptr) owner_->return_place(key_bytes_);
    }
    Place(Place&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), key_bytes_(other.key_bytes_) {}
    Place& operator=(Place&&) = delete;

   private:
    friend class Reservations;
    Reservations* owner_;
    std::size_t key_bytes_;
  };

  /// A commit that is under way. Until it ends, its reservation cannot have another one.
  class Commit {
   public:
    Commit(Reservations& owner, std::uint64_t number) : owner_(&owner), number_(number) {}
    /// If the store was asked, the reservation is committed. Otherwise another commit may follow,
    /// until the reservation expires.
    ~Commit() {
      if (owner_ == nullptr) return;
      is_asked_ ? owner_->end_commit(number_) : owner_->put_back(number_);
    }
    Commit(Commit&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)),
          number_(other.number_),
          is_asked_(other.is_asked_) {}
    Commit& operator=(Commit&&) = delete;

    /// The store is asked to carry out the commit: if its answer is lost, the commit counts as
    /// done.
    void set_asked() { is_asked_ = true; }
    /// The store has not carried out the commit: another one may follow. REQUIRES: called at most
    /// once.
    void put_back() {
      assert(owner_ != nullptr);
      std::exchange(owner_, nullptr)->put_back(number_);
    }

   private:
    Reservations* owner_;
    std::uint64_t number_;
    bool is_asked_ = false;
  };

  enum class Found : std::uint8_t {
    kHeld,        ///< It has not been committed before, and its commit begins now.
    kCommitting,  ///< Its commit is under way.
    kCommitted,   ///< It has been committed.
    kUnknown,     ///< There is none of this name, or no longer.
    kElsewhere,   ///< Another server gave it.
  };

  /// The result of begin_commit().
  struct CommitStart {
    Found found = Found::kUnknown;
    /// With kHeld: what was reserved, and its commit.
    Reserved reserved = {};
    std::optional<Commit> commit = {};
  };

  Reservations();

  /// A place for a reservation of a key with so many bytes. Nothing if kMost are held, or if their
  /// keys would have more than kMostKeyBytes.
  std::optional<Place> take_place(std::size_t key_bytes, Instant now);

  /// Keeps the reservation for kExpiresNs from now, and returns its name. REQUIRES: the place is
  /// one for its key.
  std::string hold(Place place, Reserved reserved, Instant now);

  /// Begins the commit of the reservation, if it is held. A client that does not know the whole
  /// name learns nothing of the reservation.
  CommitStart begin_commit(std::string_view name, Instant now);

 private:
  struct Entry {
    Reserved reserved = {};
    bool is_committing = false;
  };
  /// Reservations granted within kTogetherNs expire together.
  struct Expiry {
    Instant at = 0;
    std::uint64_t first = 0;
  };
  static constexpr std::int64_t kTogetherNs = 10 * kMillisecondNs;
  /// A call forgets so many at most, so that none waits long for others to be forgotten.
  static constexpr std::uint64_t kForgottenAtOnce = 256;

  /// A reservation's name is the server's number, its own, and this.
  std::string secret_of(std::uint64_t number) const;
  void return_place(std::size_t key_bytes);
  void erase(std::uint64_t number);
  void end_commit(std::uint64_t number);
  void put_back(std::uint64_t number);
  std::uint64_t first_held(Instant now) const;
  bool forget_expired(Instant now);

  const std::uint64_t server_;
  const KeyHasher secrets_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::size_t held_ = 0;       // And places.
  std::size_t key_bytes_ = 0;  // Of all that are held, and of places.
  std::uint64_t oldest_ = 0;   // All before it have been forgotten.
  std::uint64_t next_ = 0;
  std::unordered_map<std::uint64_t, Entry> entries_;  // By number; committed ones are not there.
  std::deque<Expiry> expiries_;
};

}  // namespace sluice::http
