#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "core/store.h"

namespace sluice::redis {

/// The watches of a store, by channel. Thread-safe. Shared, because a watch may outlive the store.
class Watches final : public std::enable_shared_from_this<Watches> {
 public:
  /// The most watches at a time, and the most bytes of their channels' names. The names that
  /// take_changed() would return have as many at most, before another watch is refused.
  static constexpr std::size_t kMaxWatches = 65'536;
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20;

  /// `changed` is called, with a lock held, when the first channel was added or removed since the
  /// last take_changed(), and when there was no other channel.
  explicit Watches(std::function<void()> changed) : changed_(std::move(changed)) {}

  /// Null if there are too many watches, or close() was called.
  std::unique_ptr<Watch> add(std::string channel, std::function<void()> released);

  /// The channels that were added or removed since the last call, each once.
  std::set<std::string> take_changed();
  /// All channels that have watches count as added.
  void change_all();
  bool wants(const std::string& channel) const;
  bool empty() const;

  /// Calls the channel's watches. Holds no lock but that of the watch it calls, for which the
  /// watch's destructor waits.
  void call(const std::string& channel) const;

  /// After this call `changed` is not called any more.
  void close();

 private:
  struct Listener;
  class Handle;

  void remove(const std::string& channel, const std::shared_ptr<Listener>& listener);
  void note_change(const std::string& channel);
  void tell(const std::string& channel);

  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::function<void()> changed_;  // Null once they are closed.
  std::unordered_map<std::string, std::set<std::shared_ptr<Listener>>> channels_;
  std::set<std::string> changes_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  std::size_t changed_bytes_ = 0;
};

}  // namespace sluice::redis
