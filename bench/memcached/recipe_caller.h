#pragma once

#include <libmemcached/memcached.h>

#include <cstdint>
#include <memory>
#include <string_view>

namespace sluice::bench {

/// The sliding window as it is written over Memcached: a counter for each sub-window of a key, all
/// of the window's got at once and summed, the newest then incremented. By libmemcached, which
/// waits for each answer. One thread at a time.
class RecipeCaller {
 public:
  struct Window {
    std::int64_t limit;
    std::int64_t counters;
    std::int64_t precision_s;
  };

  /// A server on 127.0.0.1. Throws std::runtime_error where libmemcached refuses it.
  RecipeCaller(int port, const Window& window);

  /// Gives a key a count of one in each sub-window of the window that ends now, without waiting for
  /// answers.
  void fill(std::string_view key);

  /// Throws std::runtime_error where the key is not admitted.
  void ask(std::string_view key);

 private:
  std::int64_t newest() const;
  std::int64_t count(std::string_view key, std::int64_t now);

  const Window window_;
  std::unique_ptr<memcached_st, decltype(&memcached_free)> server_;
};

}  // namespace sluice::bench
