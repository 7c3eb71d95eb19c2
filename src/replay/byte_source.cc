#include "replay/byte_source.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

namespace sluice::replay {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{128} * 1024;
constexpr std::string_view kGzipMagic = "\x1f\x8b";

struct Compression {
  std::string_view magic;
  std::string_view name;
};

/// What is not read, and would be taken for lines that are no requests.
constexpr Compression kOtherCompressions[] = {
    {"\x28\xb5\x2f\xfd", "zstd"}, {"\xfd\x37zXZ", "xz"}, {"BZh91AY&SY", "bzip2"}};
constexpr std::size_t kLongestMagic = 10;

/// As zlib counts: the largest window, and a gzip header before the data.
constexpr int kGzipWindow = 15 + 16;

}  // namespace

// zlib's gzread() cannot be used: it silently drops bytes after a gzip member that are no gzip.
ByteSource::ByteSource(int descriptor) : descriptor_(descriptor), buffer_(new char[kBufferBytes]) {
  if (inflateInit2(&stream_, kGzipWindow) != Z_OK) {
    close(descriptor);
    throw std::bad_alloc();
  }
}

ByteSource::~ByteSource() {
  inflateEnd(&stream_);
  close(descriptor_);
}

std::size_t ByteSource::read(char* out, std::size_t room) {
  std::size_t got = 0;
  while (got == 0 && error_.empty() && !(at_end_ && stream_.avail_in == 0)) {
    if (part_ == Part::kUnknown && !recognise()) return 0;
    got = part_ == Part::kGzip ? read_gzip(out, room) : read_plain(out, room);
  }
  return got;
}

/// After a gzip member, as tapes and gzip itself take them: they fill the last block.
void ByteSource::skip_zeroes() {
  do {
    while (stream_.avail_in > 0 && *stream_.next_in == 0) {
      ++stream_.next_in;
      --stream_.avail_in;
    }
  } while (stream_.avail_in == 0 && load());
}

/// Determines whether the next bytes are gzip. No bytes count as plain. False if they are
/// compressed in another way.
bool ByteSource::recognise() {
  if (after_gzip_) skip_zeroes();
  while (stream_.avail_in < kLongestMagic && load()) {
  }
  const std::string_view next(reinterpret_cast<const char*>(stream_.next_in), stream_.avail_in);
  for (const Compression& other : kOtherCompressions) {
    if (!next.starts_with(other.magic)) continue;
    error_ = "it is compressed by " + std::string(other.name) + ", and only gzip is read";
    return false;
  }
  part_ = next.starts_with(kGzipMagic) ? Part::kGzip : Part::kPlain;
  inflateReset(&stream_);
  return true;
}

/// May return 0 although there are more bytes.
std::size_t ByteSource::read_gzip(char* out, std::size_t room) {
  if (stream_.avail_in == 0 && !load()) {
    if (error_.empty()) error_ = "the gzip data ends too early";
    return 0;
  }
  stream_.next_out = reinterpret_cast<Bytef*>(out);
  stream_.avail_out = static_cast<uInt>(room);
  const int code = inflate(&stream_, Z_NO_FLUSH);
  if (code == Z_STREAM_END) {
    part_ = Part::kUnknown;
    after_gzip_ = true;
  } else if (code == Z_DATA_ERROR || code == Z_NEED_DICT) {
    error_ = "the gzip data is damaged";
  } else if (code != Z_OK) {
    error_ = "zlib cannot go on";
  }
  return room - stream_.avail_out;
}

/// Copies loaded bytes, or else reads directly into `out`.
std::size_t ByteSource::read_plain(char* out, std::size_t room) {
  const std::size_t loaded = std::min<std::size_t>(room, stream_.avail_in);
  if (loaded == 0) return read_descriptor(out, room);
  std::memcpy(out, stream_.next_in, loaded);
  stream_.next_in += loaded;
  stream_.avail_in -= static_cast<uInt>(loaded);
  return loaded;
}

/// Reads more bytes after those that are not yet used. Returns false at the end.
bool ByteSource::load() {
  if (stream_.avail_in > 0) std::memmove(buffer_.get(), stream_.next_in, stream_.avail_in);
  stream_.next_in = reinterpret_cast<Bytef*>(buffer_.get());
  const std::size_t got =
      read_descriptor(buffer_.get() + stream_.avail_in, kBufferBytes - stream_.avail_in);
  stream_.avail_in += static_cast<uInt>(got);
  return got > 0;
}

/// Returns 0 at the end, after which it does not read again, not even from a terminal.
std::size_t ByteSource::read_descriptor(char* out, std::size_t room) {
  if (at_end_) return 0;
  ssize_t got = 0;
  while ((got = ::read(descriptor_, out, room)) < 0 && (errno == EINTR || errno == EAGAIN)) {
    if (errno == EINTR) continue;
    pollfd file{.fd = descriptor_, .events = POLLIN, .revents = 0};
    ::poll(&file, 1, -1);  // Another process may have set O_NONBLOCK.
  }
  if (got < 0) error_ = std::generic_category().message(errno);
  at_end_ = got <= 0;
  if (got > 0) bytes_loaded_ += static_cast<std::uint64_t>(got);
  return at_end_ ? 0 : static_cast<std::size_t>(got);
}

}  // namespace sluice::replay
