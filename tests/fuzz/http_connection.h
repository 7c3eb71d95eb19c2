#pragma once

#include <memory>
#include <vector>

#include "connection.h"
#include "protocols/http/handler.h"
#include "testing/served_store.h"

namespace sluice {

/// Makes the handlers of a server that serves HTTP from this store, with two named limits.
inline MakeHandler server_over(const std::shared_ptr<ScriptedStore>& store) {
  const std::vector<Limit> named{Limit("token_bucket 5/1s", "login"),
                                 Limit("concurrency 1", "jobs")};
  return http::handlers(std::make_shared<ServerContext>(store, named, 1));
}

}  // namespace sluice
