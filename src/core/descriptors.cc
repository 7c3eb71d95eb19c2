#include "core/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace sluice {

void allow_descriptors(std::size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t possible = std::min<rlim_t>(limit.rlim_max, wanted);
  if (limit.rlim_cur >= possible) return;
  limit.rlim_cur = possible;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace sluice
