#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/instant.h"
#include "protocols/resp/writer.h"

namespace sluice::resp {

/// The longest text that a client may set for its connection: its name, its library, its version.
inline constexpr std::size_t kMaxNameBytes = 256;

/// What is known of a connection.
struct ClientInfo {
  std::int64_t id = 0;
  Instant connected_at = 0;
  /// "127.0.0.1:50000" or "[::1]:50000", as Redis writes it; "unix:" over a Unix socket.
  std::string address = {};
  Protocol protocol = Protocol::kResp2;
  /// The name of its user, or the subject of its certificate; "default" if the server has no users;
  /// empty if the client is not a user.
  std::string user = {};
  /// At most kMaxNameBytes each.
  std::string name = {};
  std::string library = {};
  std::string library_version = {};
};

/// The open connections. Thread-safe.
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

  /// Calls `change` with the connection's information, under a lock: it must be short. REQUIRES:
  /// the connection was added and not removed.
  template <class Change>
  void update(std::int64_t id, Change change) {
    const std::lock_guard lock(mutex_);
    assert(clients_.contains(id));
    change(clients_.at(id));
  }

  /// REQUIRES: the connection was added and not removed.
  ClientInfo get(std::int64_t id) const {
    const std::lock_guard lock(mutex_);
    assert(clients_.contains(id));
    return clients_.at(id);
  }

  /// At most `most` connections, the oldest first.
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
