#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/store.h"

namespace sluice::redis {

/// Who wants to know of messages on which channels. Thread-safe; held by a shared pointer, since a
/// watch may outlive the store.
class Watches final : public std::enable_shared_from_this<Watches> {
 public:
  /// The most watches at a time, and the most bytes of their channels' names.
  static constexpr std::size_t kMaxWatches = 65'536;
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20;

  /// `changed` is called, with a lock held, when channels have come or gone since take_changed().
  explicit Watches(std::function<void()> changed) : changed_(std::move(changed)) {}

  /// Null where there are too many, or they are closed.
  std::unique_ptr<Watch> add(std::string channel, std::function<void()> released);

  /// The channels that have come or gone, or both, each once.
  std::set<std::string> take_changed();
  /// All that somebody watches.
  std::vector<std::string> channels() const;
  bool wants(const std::string& channel) const;
  bool empty() const;

  /// Calls those who watch the channel, with no lock held. One thread at a time.
  void call(std::string_view channel);

  /// `changed` is not called any more.
  void close();

 private:
  class One;
  using Released = std::shared_ptr<const std::function<void()>>;
  /// Those of one channel, in the order in which they came.
  using Ones = std::map<std::uint64_t, Released>;

  void remove(const One& one);
  void tell(const std::string& channel);

  mutable std::mutex mutex_;
  std::condition_variable called_;
  // Guarded by mutex_:
  std::function<void()> changed_;  // Null once they are closed.
  std::unordered_map<std::string, Ones> channels_;
  std::set<std::string> changes_;
  std::uint64_t made_ = 0;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  std::uint64_t calling_ = 0;  // Who is being called, or 0, and on which thread.
  std::thread::id caller_;
};

}  // namespace sluice::redis
