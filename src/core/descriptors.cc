#include "core/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace sluice {

std::size_t allow_descriptors(std::size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  const rlim_t before = limit.rlim_cur;
  const rlim_t possible = std::min<rlim_t>(limit.rlim_max, wanted);
  if (before >= possible) return possible;
  limit.rlim_cur = possible;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? possible : before;
}

}  // namespace sluice
