#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "servers/memcached_server.h"
#include "servers/redis_server.h"

namespace sluice::permits {

/// A kind of server, and whether it notifies waiting processes of released permits.
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

/// A longer deadline, because Redis and Memcached under load may answer late, which is not tested
/// here.
inline std::string patiently(const std::string& url) {
  return url + "?deadline=20s&on_failure=raise";
}

/// A test on a real server of each kind.
class OnEachServer : public testing::TestWithParam<Kind> {
 protected:
  std::string plain_url_;
  std::shared_ptr<servers::Server> server_ = GetParam().start(plain_url_);
  std::string url_ = patiently(plain_url_);
};

inline const auto kEachServer = testing::Values(kRedis, kMemcached);

inline std::string name_of(const testing::TestParamInfo<Kind>& kind) {
  return kind.param.name;
}

}  // namespace sluice::permits
