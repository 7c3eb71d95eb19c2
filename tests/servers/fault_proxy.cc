#include "servers/fault_proxy.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "servers/socket.h"
#include "testing/unique_fd.h"

namespace sluice::servers {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr std::size_t kMostChunks = 1'000;

struct Faults {
  std::chrono::milliseconds delay{0};
  bool swallows = false;
  std::function<void(std::string&)> edit = {};
  bool stalls = false;
  bool refuses = false;
  std::optional<std::size_t> cut_after = {};
};

/// The bytes of one direction of a connection.
struct Flow {
  struct Chunk {
    SteadyTime due;
    std::string bytes;
  };

  int from = -1;
  int to = -1;
  bool carries_replies = false;
  std::deque<Chunk> chunks = {};
  /// The sender has closed its side.
  bool has_ended = false;

  bool wants_more() const { return !has_ended && chunks.size() < kMostChunks; }
};

/// Closes at once, even while poll() waits for the descriptor and so keeps the socket open.
void end(UniqueFd& fd) {
  if (fd) ::shutdown(fd.get(), SHUT_RDWR);
  fd.reset();
}

struct Link {
  ~Link() {
    end(client);
    end(server);
  }

  UniqueFd client;
  UniqueFd server;
  std::array<Flow, 2> flows;

  bool is_over() const {
    return std::any_of(flows.begin(), flows.end(),
                       [](const Flow& flow) { return flow.has_ended && flow.chunks.empty(); });
  }
};

}  // namespace

/// One thread forwards the bytes. It holds the mutex except while it waits for bytes, so a setting
/// that is changed under the mutex applies to every later byte.
class FaultProxy::Relay {
 public:
  explicit Relay(std::uint16_t server_port)
      : server_port_(server_port),
        port_(free_port()),
        listener_(listen_on(port_)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_) throw std::system_error(errno, std::generic_category(), "no eventfd");
    thread_ = std::thread([this] { run(); });
  }

  ~Relay() {
    change([this](Faults&) { ends_ = true; });
    thread_.join();
  }

  std::uint16_t port() const { return port_; }

  template <class Change>
  void change(Change how) {
    const std::lock_guard lock(mutex_);
    how(faults_);
    if (faults_.refuses) {
      accept_all();  // Includes connections that already wait to be accepted.
      end(listener_);
    } else if (!listener_) {
      listener_ = listen_on(port_);
    }
    const std::uint64_t one = 1;
    while (::write(wake_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
  }

  void cut_now() {
    const std::lock_guard lock(mutex_);
    for (Link& link : links_) carry(link);
    links_.clear();
  }

  std::size_t accepted() const {
    const std::lock_guard lock(mutex_);
    return accepted_;
  }
  std::size_t swallowed_bytes() const {
    const std::lock_guard lock(mutex_);
    return swallowed_bytes_;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      const int timeout_ms = prepare_wait();
      lock.unlock();
      ::poll(waits_.data(), waits_.size(), timeout_ms);
      lock.lock();
      std::uint64_t ignored = 0;
      if (::read(wake_.get(), &ignored, sizeof(ignored)) < 0 && errno != EAGAIN) return;
      accept_all();
      for (Link& link : links_) carry(link);
      links_.remove_if([](const Link& link) { return link.is_over(); });
    }
  }

  /// Sets waits_. Returns the timeout of the wait in milliseconds, -1 for none.
  int prepare_wait() {
    waits_.assign({{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
    if (faults_.stalls) return -1;
    const SteadyTime now = std::chrono::steady_clock::now();
    std::optional<SteadyTime> next;
    for (const Link& link : links_) {
      for (const Flow& flow : link.flows) {
        if (flow.wants_more()) waits_.push_back({flow.from, POLLIN, 0});
        if (flow.chunks.empty()) continue;
        const SteadyTime due = flow.chunks.front().due;
        if (due <= now) {
          waits_.push_back({flow.to, POLLOUT, 0});
        } else {
          next = next ? std::min(*next, due) : due;
        }
      }
    }
    if (!next) return -1;
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(*next - now).count());
  }

  void accept_all() {
    while (listener_) {
      UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!client) return;
      ++accepted_;
      try {
        UniqueFd server = connect_to(server_port_);
        ::fcntl(server.get(), F_SETFL, O_NONBLOCK);
        Link& link = links_.emplace_back();
        link.client = std::move(client);
        link.server = std::move(server);
        link.flows = {Flow{link.client.get(), link.server.get(), false},
                      Flow{link.server.get(), link.client.get(), true}};
      } catch (const std::exception&) {
        // The server is not running: the client's connection is closed.
      }
    }
  }

  void carry(Link& link) {
    if (faults_.stalls) return;
    for (Flow& flow : link.flows) {
      while (flow.wants_more() && receive(flow)) {
      }
      while (send(flow)) {
      }
    }
  }

  /// Whether there may be more to receive.
  bool receive(Flow& flow) {
    std::array<char, 65'536> piece;
    const ssize_t got = ::recv(flow.from, piece.data(), piece.size(), 0);
    if (got <= 0) {
      flow.has_ended = got == 0 || (errno != EAGAIN && errno != EINTR);
      return false;
    }
    std::string bytes(piece.data(), static_cast<std::size_t>(got));
    SteadyTime due = std::chrono::steady_clock::now();
    if (flow.carries_replies) {
      if (faults_.swallows) {
        swallowed_bytes_ += bytes.size();
        return true;
      }
      due += faults_.delay;
      if (faults_.edit) faults_.edit(bytes);
      cut(flow, bytes);
    }
    if (!bytes.empty()) flow.chunks.push_back({due, std::move(bytes)});
    return true;
  }

  /// Truncates `bytes` at the requested cut, if there is one.
  void cut(Flow& flow, std::string& bytes) {
    if (!faults_.cut_after) return;
    if (bytes.size() < *faults_.cut_after) {
      *faults_.cut_after -= bytes.size();
      return;
    }
    bytes.resize(*faults_.cut_after);
    flow.has_ended = true;
    faults_.cut_after.reset();
  }

  /// Whether there may be more to send now.
  static bool send(Flow& flow) {
    if (flow.chunks.empty() || flow.chunks.front().due > std::chrono::steady_clock::now()) {
      return false;
    }
    std::string& bytes = flow.chunks.front().bytes;
    const ssize_t sent = ::send(flow.to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      // What the other side sent before it closed the connection is still to be received.
      if (errno != EAGAIN && errno != EINTR) flow.chunks.clear();
      return false;
    }
    bytes.erase(0, static_cast<std::size_t>(sent));
    if (bytes.empty()) flow.chunks.pop_front();
    return true;
  }

  const std::uint16_t server_port_;
  const std::uint16_t port_;
  mutable std::mutex mutex_;
  UniqueFd listener_;
  UniqueFd wake_;
  Faults faults_;
  std::list<Link> links_;
  std::vector<pollfd> waits_;
  std::size_t accepted_ = 0;
  std::size_t swallowed_bytes_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

FaultProxy::FaultProxy(std::uint16_t server_port) : relay_(std::make_unique<Relay>(server_port)) {}

FaultProxy::~FaultProxy() = default;

std::uint16_t FaultProxy::port() const {
  return relay_->port();
}

void FaultProxy::pass() {
  relay_->change([](Faults& faults) { faults = {}; });
}

void FaultProxy::delay_replies(std::chrono::milliseconds delay) {
  relay_->change([delay](Faults& faults) { faults.delay = delay; });
}

void FaultProxy::swallow_replies() {
  relay_->change([](Faults& faults) { faults.swallows = true; });
}

void FaultProxy::edit_replies(std::function<void(std::string&)> edit) {
  relay_->change([&](Faults& faults) { faults.edit = std::move(edit); });
}

void FaultProxy::stall() {
  relay_->change([](Faults& faults) { faults.stalls = true; });
}

void FaultProxy::refuse() {
  relay_->change([](Faults& faults) { faults.refuses = true; });
}

void FaultProxy::cut_after(std::size_t reply_bytes) {
  relay_->change([reply_bytes](Faults& faults) { faults.cut_after = reply_bytes; });
}

void FaultProxy::cut_now() {
  relay_->cut_now();
}

std::size_t FaultProxy::accepted() const {
  return relay_->accepted();
}

std::size_t FaultProxy::swallowed_bytes() const {
  return relay_->swallowed_bytes();
}

}  // namespace sluice::servers
