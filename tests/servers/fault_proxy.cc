#include "servers/fault_proxy.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <system_error>
#include <utility>

#include "servers/socket.h"

namespace sluice::servers {
namespace {

/// Closes at once, even while poll() waits for the descriptor and so keeps the socket open.
void end(UniqueFd& fd) {
  if (fd) ::shutdown(fd.get(), SHUT_RDWR);
  fd.reset();
}

}  // namespace

FaultProxy::Link::~Link() {
  end(client);
  end(server);
}

bool FaultProxy::Link::is_over() const {
  return std::any_of(flows.begin(), flows.end(),
                     [](const Flow& flow) { return flow.has_ended && flow.chunks.empty(); });
}

FaultProxy::FaultProxy(std::uint16_t server_port)
    : server_port_(server_port),
      port_(free_port()),
      listener_(listen_on(port_)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) throw std::system_error(errno, std::generic_category(), "no eventfd");
  thread_ = std::thread([this] { run(); });
}

FaultProxy::~FaultProxy() {
  change([this](Faults&) { ends_ = true; });
  thread_.join();
}

void FaultProxy::change(const std::function<void(Faults&)>& how) {
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

void FaultProxy::cut_now() {
  const std::lock_guard lock(mutex_);
  for (Link& link : links_) carry(link);
  links_.clear();
}

void FaultProxy::run() {
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
int FaultProxy::prepare_wait() {
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

void FaultProxy::accept_all() {
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

void FaultProxy::carry(Link& link) {
  if (faults_.stalls) return;
  for (Flow& flow : link.flows) {
    while (flow.wants_more() && receive(flow)) {
    }
    while (send(flow)) {
    }
  }
}

/// Whether there may be more to receive.
bool FaultProxy::receive(Flow& flow) {
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
void FaultProxy::cut(Flow& flow, std::string& bytes) {
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
bool FaultProxy::send(Flow& flow) {
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

}  // namespace sluice::servers
