#include "memory/bound_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace sluice::bench {

BoundTable::BoundTable(const Resident& like)
    : count_(std::max<std::size_t>(like.bytes / sizeof(Line), 1)) {
  void* memory = mmap(nullptr, count_ * sizeof(Line), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // If the kernel ignores the advice, the benchmark runs with ordinary pages.
  static_cast<void>(madvise(memory, count_ * sizeof(Line),
                            like.huge_bytes > like.bytes / 2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE));
  lines_ = static_cast<Line*>(memory);
  for (std::size_t i = 0; i < count_; ++i) {
    std::fill(std::begin(lines_[i].words), std::end(lines_[i].words), i);
  }
}

BoundTable::~BoundTable() {
  munmap(lines_, count_ * sizeof(Line));
}

}  // namespace sluice::bench
