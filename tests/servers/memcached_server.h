#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "servers/server.h"

namespace sluice::servers {

/// A memcached on a port of 127.0.0.1.
class MemcachedServer final : public Server {
 public:
  /// Returns once it answers. `arguments` are added to its own: {"-m", "8"} for example.
  explicit MemcachedServer(std::vector<std::string> arguments = {});

  /// "memcached://127.0.0.1:PORT".
  std::string url() const;

  /// Sends commands, each with its line end, through a connection of its own; all that is answered,
  /// line ends included.
  std::string command(std::string_view lines) const;
  /// The value of one line of `stats`; empty where there is none.
  std::string stat(const std::string& field) const;

 private:
  bool answers() override;
};

}  // namespace sluice::servers
