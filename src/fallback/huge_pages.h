#pragma once

#include <cstddef>

namespace sluice {

/// Zeroed memory that takes up no page before it is used, in huge pages where the system has them:
/// with pages of 4 KiB, most accesses to a large table wait until the processor has found the page,
/// which takes 200 ns in a virtual machine.
class HugePages {
 public:
  static constexpr std::size_t kPage = std::size_t{2} << 20;

  /// Throws std::bad_alloc.
  explicit HugePages(std::size_t bytes);
  ~HugePages();
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

  /// The first byte, at a multiple of kPage.
  void* begin() const { return begin_; }

 private:
  const std::size_t mapped_bytes_;
  void* const mapping_;
  void* const begin_;
};

}  // namespace sluice
