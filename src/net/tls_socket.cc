#include "net/tls_socket.h"

#include <openssl/bio.h>
#include <sys/socket.h>

#include <cerrno>
#include <new>

namespace sluice {
namespace {

int fd_of(BIO* bio) {
  return *static_cast<const int*>(BIO_get_data(bio));
}

bool must_wait() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

int write_socket(BIO* bio, const char* from, int bytes) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent =
      ::send(fd_of(bio), from, static_cast<std::size_t>(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && must_wait()) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int read_socket(BIO* bio, char* to, int bytes) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(fd_of(bio), to, static_cast<std::size_t>(bytes), MSG_DONTWAIT);
  if (got < 0 && must_wait()) BIO_set_retry_read(bio);
  if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(got);
}

long control_socket(BIO* bio, int command, long, void*) {
  switch (command) {
    case BIO_CTRL_FLUSH:
      return 1;  // Nothing is held back.
    case BIO_CTRL_EOF:
      return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    default:
      return 0;
  }
}

int free_socket(BIO* bio) {
  delete static_cast<int*>(BIO_get_data(bio));
  return 1;
}

/// Made once, never freed: streams may live until the program ends.
BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (made == nullptr) return made;
    BIO_meth_set_write(made, write_socket);
    BIO_meth_set_read(made, read_socket);
    BIO_meth_set_ctrl(made, control_socket);
    BIO_meth_set_destroy(made, free_socket);
    return made;
  }();
  return method;
}

}  // namespace

BIO* make_tls_socket(int fd) {
  BIO_METHOD* const method = socket_method();
  BIO* const bio = method == nullptr ? nullptr : BIO_new(method);
  if (bio == nullptr) return nullptr;
  int* const data = new (std::nothrow) int(fd);
  if (data == nullptr) {
    BIO_free(bio);
    return nullptr;
  }
  BIO_set_data(bio, data);
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace sluice
