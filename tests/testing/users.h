#pragma once

#include <vector>

#include "service/access.h"

namespace sluice {

/// The users of the servers' tests: one with each role, and one with a certificate.
inline std::vector<User> test_users() {
  return {{"gateway", token_sha256("secret"), "", kCheckRole},
          {"operator", token_sha256("other"), "", kCheckRole | kAdminRole},
          {"prometheus", token_sha256("third"), "", kMetricsRole},
          {"", "", "CN=gateway", kCheckRole}};
}

}  // namespace sluice
