#pragma once

#include <stdexcept>

namespace sluice {

/// Thrown if the options, or a file that they name, are invalid. what() is one sentence that names
/// the place; it may quote any bytes of the file.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace sluice
