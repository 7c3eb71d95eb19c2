#include "memory/resident.h"

#include <fstream>
#include <string>

namespace sluice::bench {

Resident read_resident() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  Resident resident;
  for (std::string word; rollup >> word;) {
    if (word != "Rss:" && word != "AnonHugePages:") continue;
    std::size_t kilobytes = 0;
    rollup >> kilobytes;
    (word == "Rss:" ? resident.bytes : resident.huge_bytes) = kilobytes * 1024;
  }
  return resident;
}

}  // namespace sluice::bench
