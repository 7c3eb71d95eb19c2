#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace sluice::replay {

/// The bytes of a file, a pipe or a terminal, unpacked where they are gzip (which the first bytes
/// tell). What follows a gzip member is another one, or plain to the end, so that `cat a.gz b` is
/// read whole. Not thread-safe.
class ByteSource {
 public:
  /// Takes the open descriptor over, and closes it at the end. Throws std::bad_alloc.
  explicit ByteSource(int descriptor);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Reads at least one byte and at most `room`, which is not 0, and says how many; 0 at the end,
  /// and where error() says why there is no more.
  std::size_t read(char* out, std::size_t room);

  /// Empty, or why reading ended before the end of the input, in a few words.
  const std::string& error() const { return error_; }

  /// How far into the input (as stored, so compressed if it is) reading has come.
  std::uint64_t bytes_read() const { return bytes_loaded_ - stream_.avail_in; }

 private:
  enum class Part : std::uint8_t { kUnknown, kGzip, kPlain };

  void recognise();
  std::size_t read_gzip(char* out, std::size_t room);
  std::size_t read_plain(char* out, std::size_t room);
  bool load();
  std::size_t read_descriptor(char* out, std::size_t room);

  int descriptor_;
  Part part_ = Part::kUnknown;
  bool at_end_ = false;
  std::uint64_t bytes_loaded_ = 0;
  std::string error_;
  /// What was loaded and not yet used is the stream's input.
  std::unique_ptr<char[]> buffer_;
  z_stream stream_{};
};

}  // namespace sluice::replay
