#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>

#include "servers/memcached_server.h"
#include "servers/redis_server.h"

namespace sluice::servers {

/// A kind of server.
struct Kind {
  const char* name;  // And the scheme of its URLs.
  bool tells;        // It notifies waiting processes of released permits.
  std::shared_ptr<Server> (*start)();

  friend std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }
};

/// A test on a real server of each kind: each `class T : public OnEachServer` needs
///
///     INSTANTIATE_TEST_SUITE_P(EveryServer, T, kEachServer, name_of);
class OnEachServer : public testing::TestWithParam<Kind> {
 protected:
  const std::shared_ptr<Server> server_ = GetParam().start();
};

inline const auto kEachServer =
    testing::Values(Kind{"redis", true, start_server<RedisServer>},
                    Kind{"memcached", false, start_server<MemcachedServer>});

inline std::string name_of(const testing::TestParamInfo<Kind>& kind) {
  return kind.param.name;
}

}  // namespace sluice::servers
