#include "fallback/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace sluice {
namespace {

void* map(std::size_t bytes) {
  void* const mapping =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  static_cast<void>(madvise(mapping, bytes, MADV_HUGEPAGE));
  return mapping;
}

void* align_up(void* mapping) {
  const auto misplaced = reinterpret_cast<std::uintptr_t>(mapping) % HugePages::kPage;
  return static_cast<std::byte*>(mapping) + (misplaced == 0 ? 0 : HugePages::kPage - misplaced);
}

}  // namespace

HugePages::HugePages(std::size_t bytes)
    : mapped_bytes_(bytes + kPage), mapping_(map(mapped_bytes_)), begin_(align_up(mapping_)) {}

HugePages::~HugePages() {
  munmap(mapping_, mapped_bytes_);
}

}  // namespace sluice
