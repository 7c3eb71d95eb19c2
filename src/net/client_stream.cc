#include "net/client_stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace sluice {
namespace {

class PlainStream final : public ClientStream {
 public:
  using ClientStream::ClientStream;

  Transfer shake_hands() override { return {Transfer::Status::kMoved, 0}; }

  Transfer send(std::string_view bytes) override {
    const ssize_t sent = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 ? stopped(Transfer::Status::kMustWrite) : moved(sent);
  }

  Transfer receive(std::span<char> room) override {
    const ssize_t got = ::recv(fd(), room.data(), room.size(), MSG_DONTWAIT);
    if (got == 0) return {Transfer::Status::kEnded, 0};
    return got < 0 ? stopped(Transfer::Status::kMustRead) : moved(got);
  }

  bool holds_more() const override { return false; }

  bool is_quiet() override {
    char byte = 0;
    const ssize_t got = ::recv(fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got < 0 && must_wait();
  }

 private:
  static bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

  static Transfer moved(ssize_t bytes) {
    return {Transfer::Status::kMoved, static_cast<std::size_t>(bytes)};
  }

  Transfer stopped(Transfer::Status wait) {
    if (must_wait()) return {wait, 0};
    fault_ = std::generic_category().message(errno);
    return {Transfer::Status::kFailed, 0};
  }
};

}  // namespace

void ClientStream::reset_on_close() {
  const linger none{.l_onoff = 1, .l_linger = 0};
  // A Unix socket has nothing on its way, and ignores it.
  ::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &none, sizeof(none));
}

std::unique_ptr<ClientStream> make_plain_stream(UniqueFd socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace sluice
