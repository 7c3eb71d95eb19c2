#pragma once

#include <memory>
#include <string>
#include <vector>

#include "protocols/resp/commands.h"

namespace sluice::resp {

// For this module's tests.

/// A command as clients send it.
inline std::string array(const std::vector<std::string>& arguments) {
  std::string bytes = "*" + std::to_string(arguments.size()) + "\r\n";
  for (const auto& text : arguments) {
    bytes += "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  return bytes;
}

/// The only thread of a server over this store, with the limit "login".
inline std::shared_ptr<ThreadState> thread_over(std::shared_ptr<Store> store) {
  const std::vector<Limit> named{Limit("token_bucket 5/1s", "login")};
  return std::make_shared<ThreadState>(std::make_shared<ServerContext>(std::move(store), named, 1),
                                       0);
}

}  // namespace sluice::resp
