#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/store.h"
#include "net/address.h"
#include "net/stream_server.h"
#include "sluice/limit.h"

namespace sluice {

/// What the RESP handlers of all listeners share.
struct RespParts {
  std::shared_ptr<Store> store;
  std::vector<Limit> limits;
  std::size_t threads = 1;
};

/// RESP served on each of the addresses: connections of one thread share that thread's limits and
/// batch, whichever listener they came by. Throws InvalidLimit or StoreError where a limit cannot
/// be opened.
std::vector<Service> make_resp_services(const std::vector<Address>& addresses,
                                        const RespParts& parts);

}  // namespace sluice
