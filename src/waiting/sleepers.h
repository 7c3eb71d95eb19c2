#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "waiting/limit_binding.h"

namespace sluice {

/// How the wait for units that a caller has reserved ends.
enum class Waking : std::uint8_t {
  kReady,    ///< It may go ahead.
  kStopped,  ///< Its stop token was requested to stop.
  // By another caller of this process:
  kReset,     ///< The key was reset: what was reserved is forgotten.
  kBlocked,   ///< The key was blocked.
  kReplaced,  ///< The limit was replaced.
};

/// The callers of this process that wait for units they have reserved of the keys of one space.
/// Thread-safe.
class Sleepers {
 public:
  using Wake = std::function<void(Waking)>;

  /// How often callers were to be woken in this process, at all limits together.
  static std::uint64_t wakings() { return count_.load(std::memory_order_acquire); }

  /// One of them, until it is destroyed. `since` is what wakings() was before the store was asked:
  /// what has happened to the key or the limit since then wakes it at once. `wake` may be called
  /// several times, with a lock held: it does little, and does not use the Sleepers.
  class Sleeper {
   public:
    Sleeper(Sleepers& sleepers, std::string_view key, const LimitBinding& binding,
            std::uint64_t since, Wake wake);
    ~Sleeper();
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

   private:
    Sleepers& sleepers_;
    std::multimap<std::string, const Sleeper*, std::less<>>::iterator place_;
    const LimitBinding& binding_;
    const Wake wake_;

    friend class Sleepers;
  };

  /// How many wait.
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return sleepers_.size();
  }

  /// Wakes those that wait for the key.
  void wake(std::string_view key, Waking why);
  /// Wakes those that wait by this limit.
  void wake_all(const LimitBinding& binding, Waking why);

 private:
  /// What happened to a key, or to a limit.
  struct Event {
    std::uint64_t number;  // Counted by count_.
    Waking why;
    std::size_t key_hash;
    const LimitBinding* binding;  // Null: it happened to the key.
  };
  static constexpr std::size_t kMostRemembered = 64;

  void remember(Waking why, std::string_view key, const LimitBinding* binding);
  std::optional<Waking> missed(std::string_view key, const LimitBinding& binding,
                               std::uint64_t since) const;

  static inline constinit std::atomic<std::uint64_t> count_{0};
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::multimap<std::string, const Sleeper*, std::less<>> sleepers_;
  std::vector<Event> events_;    // The last ones.
  std::uint64_t forgotten_ = 0;  // The number of the last one that is not among them.
};

}  // namespace sluice
