#pragma once

#include <stdexcept>

namespace sluice {

/// The options or a file they name cannot be served; what() is one sentence that names the place.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace sluice
