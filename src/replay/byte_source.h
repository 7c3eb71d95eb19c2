#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace sluice::replay {

/// Reads the bytes of a file, a pipe or a terminal, and decompresses gzip, which it recognises by
/// its first bytes, as it does other compressions, which are an error. After a gzip member it skips
/// zero bytes, which fill a block, and reads another member, or plain bytes to the end, so that
/// `cat a.gz b` is read completely. Not thread-safe.
class ByteSource {
 public:
  /// Takes ownership of the open descriptor.
  explicit ByteSource(int descriptor);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Reads at least one byte and at most `room`, which is not 0, and returns how many; 0 at the end
  /// of the input, or if error() says why reading ended.
  std::size_t read(char* out, std::size_t room);

  /// A few words that say why reading ended before the end of the input; else empty.
  const std::string& error() const { return error_; }

  /// The number of bytes read from the input, before decompression.
  std::uint64_t bytes_read() const { return bytes_loaded_ - stream_.avail_in; }

 private:
  enum class Part : std::uint8_t { kUnknown, kGzip, kPlain };

  void skip_zeroes();
  bool recognise();
  std::size_t read_gzip(char* out, std::size_t room);
  std::size_t read_plain(char* out, std::size_t room);
  bool load();
  std::size_t read_descriptor(char* out, std::size_t room);

  int descriptor_;
  Part part_ = Part::kUnknown;
  bool after_gzip_ = false;
  bool at_end_ = false;
  std::uint64_t bytes_loaded_ = 0;
  std::string error_;
  /// The bytes that are loaded and not yet used are the stream's input.
  std::unique_ptr<char[]> buffer_;
  z_stream stream_{};
};

}  // namespace sluice::replay
