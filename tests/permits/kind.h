#pragma once

#include <memory>
#include <string>

#include "servers/memcached_server.h"
#include "servers/redis_server.h"

namespace sluice::permits {

/// A real server, and whether it tells of what is released elsewhere.
struct Kind {
  const char* name;
  bool tells;
  std::shared_ptr<servers::Server> (*start)(std::string& url);
};

template <class Server>
std::shared_ptr<servers::Server> start(std::string& url) {
  auto server = std::make_shared<Server>();
  url = server->url();
  return server;
}

inline constexpr Kind kRedis{"Redis", true, start<servers::RedisServer>};
inline constexpr Kind kMemcached{"Memcached", false, start<servers::MemcachedServer>};

/// Redis and Memcached under load answer late at times: that is not what is tested here.
inline std::string patiently(const std::string& url) {
  return url + "?deadline=2s&on_failure=raise";
}

}  // namespace sluice::permits
