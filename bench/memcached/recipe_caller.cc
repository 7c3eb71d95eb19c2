#include "memcached/recipe_caller.h"

#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::bench {
namespace {

std::string counter_of(std::string_view key, std::int64_t sub_window) {
  return "bench:" + std::string(key) + ":" + std::to_string(sub_window);
}

}  // namespace

RecipeCaller::RecipeCaller(int port, const Window& window)
    : window_(window), server_(memcached_create(nullptr), memcached_free) {
  // An increment that creates its counter needs the binary protocol.
  const bool made = server_ != nullptr &&
                    memcached_behavior_set(server_.get(), MEMCACHED_BEHAVIOR_BINARY_PROTOCOL, 1) ==
                        MEMCACHED_SUCCESS &&
                    memcached_behavior_set(server_.get(), MEMCACHED_BEHAVIOR_TCP_NODELAY, 1) ==
                        MEMCACHED_SUCCESS &&
                    memcached_server_add(server_.get(), "127.0.0.1",
                                         static_cast<in_port_t>(port)) == MEMCACHED_SUCCESS;
  if (!made) throw std::runtime_error("libmemcached cannot use the server");
}

std::int64_t RecipeCaller::newest() const {
  return std::time(nullptr) / window_.precision_s;
}

void RecipeCaller::fill(std::string_view key) {
  memcached_behavior_set(server_.get(), MEMCACHED_BEHAVIOR_NOREPLY, 1);
  memcached_behavior_set(server_.get(), MEMCACHED_BEHAVIOR_BUFFER_REQUESTS, 1);
  const std::int64_t now = newest();
  const auto expiry = static_cast<time_t>(window_.counters * window_.precision_s);
  for (std::int64_t i = 0; i < window_.counters; ++i) {
    const std::string counter = counter_of(key, now - i);
    const memcached_return_t code =
        memcached_set(server_.get(), counter.data(), counter.size(), "1", 1, expiry, 0);
    if (code != MEMCACHED_SUCCESS && code != MEMCACHED_BUFFERED) {
      throw std::runtime_error("libmemcached cannot set a counter");
    }
  }
}

std::int64_t RecipeCaller::count(std::string_view key, std::int64_t now) {
  std::vector<std::string> names;
  std::vector<const char*> texts;
  std::vector<std::size_t> bytes;
  names.reserve(static_cast<std::size_t>(window_.counters));
  for (std::int64_t i = 0; i < window_.counters; ++i) {
    names.push_back(counter_of(key, now - i));
    texts.push_back(names.back().c_str());
    bytes.push_back(names.back().size());
  }
  if (memcached_mget(server_.get(), texts.data(), bytes.data(), names.size()) !=
      MEMCACHED_SUCCESS) {
    throw std::runtime_error("libmemcached cannot get the counters");
  }
  std::int64_t sum = 0;
  memcached_return_t code = MEMCACHED_SUCCESS;
  while (memcached_result_st* result = memcached_fetch_result(server_.get(), nullptr, &code)) {
    // The value has no terminating zero.
    const std::string value(memcached_result_value(result), memcached_result_length(result));
    sum += std::strtoll(value.c_str(), nullptr, 10);
    memcached_result_free(result);
  }
  if (code != MEMCACHED_END && code != MEMCACHED_NOTFOUND) {
    throw std::runtime_error(std::string("libmemcached cannot read the counters: ") +
                             memcached_strerror(server_.get(), code));
  }
  return sum;
}

void RecipeCaller::ask(std::string_view key) {
  const std::int64_t now = newest();
  if (count(key, now) >= window_.limit) {
    throw std::runtime_error("the recipe did not admit a request");
  }
  const std::string counter = counter_of(key, now);
  std::uint64_t value = 0;
  const auto expiry = static_cast<time_t>(window_.counters * window_.precision_s);
  if (memcached_increment_with_initial(server_.get(), counter.data(), counter.size(), 1, 1, expiry,
                                       &value) != MEMCACHED_SUCCESS) {
    throw std::runtime_error("libmemcached cannot increment a counter");
  }
}

}  // namespace sluice::bench
