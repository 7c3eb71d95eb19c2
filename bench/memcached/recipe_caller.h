#pragma once

#include <libmemcached/memcached.h>

#include <cstdint>
#include <memory>
#include <string_view>

namespace sluice::bench {

/// The usual sliding window on Memcached: a counter for each sub-window of a key. It gets all
/// counters of the window, adds them up, and increments the newest. Uses libmemcached, which waits
/// for each reply. Not thread-safe.
class RecipeCaller {
 public:
  struct Window {
    std::int64_t limit;
    std::int64_t counters;
    std::int64_t precision_s;
  };

  /// For a server on 127.0.0.1. Throws std::runtime_error if libmemcached rejects it.
  RecipeCaller(int port, const Window& window);

  /// Sets the counters of all sub-windows of the present window to 1, without waiting for replies.
  void fill(std::string_view key);

  /// Makes one decision. Throws std::runtime_error if it is not an admission.
  void ask(std::string_view key);

 private:
  std::int64_t newest() const;
  std::int64_t count(std::string_view key, std::int64_t now);

  const Window window_;
  std::unique_ptr<memcached_st, decltype(&memcached_free)> server_;
};

}  // namespace sluice::bench
