#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

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

  /// One of them, until it is destroyed. `wake` may be called several times, with a lock held: it
  /// does little, and does not use the Sleepers.
  class Sleeper {
   public:
    Sleeper(Sleepers& sleepers, std::string_view key, const LimitBinding& binding, Wake wake);
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
  mutable std::mutex mutex_;
  std::multimap<std::string, const Sleeper*, std::less<>> sleepers_;  // guarded by mutex_
};

}  // namespace sluice
