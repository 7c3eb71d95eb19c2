#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/instant.h"
#include "protocols/resp/writer.h"

namespace sluice::resp {

/// The longest text that a client may say of its connection: its name, its library, its version.
inline constexpr std::size_t kMaxNameBytes = 256;

/// What is known of a connection.
struct ClientInfo {
  std::int64_t id = 0;
  Instant connected_at = 0;
  Protocol protocol = Protocol::kResp2;
  /// The name of its user, or the subject of its certificate; "default" where there are no users,
  /// and empty where the client is none of them.
  std::string user = {};
  /// At most kMaxNameBytes each.
  std::string name = {};
  std::string library = {};
  std::string library_version = {};
};

/// The connections there are. Thread-safe.
class Clients {
 public:
  void add(ClientInfo client) {
    const std::lock_guard lock(mutex_);
    const std::int64_t id = client.id;
    clients_[id] = std::move(client);
  }
  void remove(std::int64_t id) {
    const std::lock_guard lock(mutex_);
    clients_.erase(id);
  }

  /// Changes what is known of a connection. REQUIRES: it is known; `change` does little.
  template <class Change>
  void update(std::int64_t id, Change change) {
    const std::lock_guard lock(mutex_);
    change(clients_.at(id));
  }

  /// REQUIRES: it is known.
  ClientInfo get(std::int64_t id) const {
    const std::lock_guard lock(mutex_);
    return clients_.at(id);
  }

  /// At most `most`, in the order in which they came.
  std::vector<ClientInfo> list(std::size_t most) const {
    const std::lock_guard lock(mutex_);
    std::vector<ClientInfo> found;
    for (const auto& [id, client] : clients_) {
      if (found.size() == most) break;
      found.push_back(client);
    }
    return found;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::int64_t, ClientInfo> clients_;  // guarded by mutex_
};

}  // namespace sluice::resp
