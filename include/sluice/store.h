#pragma once

#include <memory>
#include <stdexcept>
#include <string_view>

namespace sluice {

/// Where the state of keys lives. Shared by any number of limiters and threads.
class Store;

/// A store cannot be opened, or cannot do what is asked of it (not: a request is denied). what() is
/// one sentence.
class StoreError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Opens a store by its URL:
///
///     memory:                        in this process, at most 1 GiB
///     memory:?max_bytes=16777216     at most 16 MiB (and never less than 1 MiB)
///     memory:?full=allow             where there is no room for a new key, it is admitted and not
///                                    recorded (default: deny, Decision::source says kFull)
///
/// Throws StoreError.
std::shared_ptr<Store> open_store(std::string_view url);

}  // namespace sluice
