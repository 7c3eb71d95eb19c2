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
  std::shared_ptr<servers::Server> (*start)();
};

inline constexpr Kind kRedis{"Redis", true, servers::start_server<servers::RedisServer>};
inline constexpr Kind kMemcached{"Memcached", false,
                                 servers::start_server<servers::MemcachedServer>};

/// A test on a real server of each kind.
class OnEachServer : public testing::TestWithParam<Kind> {
 protected:
  std::shared_ptr<servers::Server> server_ = GetParam().start();
  /// A longer deadline, because Redis and Memcached under load may answer late, which is not tested
  /// here.
  std::string url_ = server_->url() + "?deadline=20s&on_failure=raise";
};

inline const auto kEachServer = testing::Values(kRedis, kMemcached);

inline std::string name_of(const testing::TestParamInfo<Kind>& kind) {
  return kind.param.name;
}

}  // namespace sluice::permits
