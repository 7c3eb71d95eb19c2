#include "waiting/permit_id.h"

#include <cstdint>
#include <optional>
#include <random>

#include "waiting/fork.h"

namespace sluice {
namespace {

/// A thread's own random numbers.
struct Generator {
  Generator() {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device(), device(), device(), device()};
    numbers.seed(seed);
  }

  const std::uint64_t of_process = fork_generation();
  std::mt19937_64 numbers;
};

}  // namespace

PermitId new_permit_id() {
  thread_local std::optional<Generator> own;
  // A child of fork() does not go on with its parent's numbers.
  if (!own || own->of_process != fork_generation()) own.emplace();
  for (;;) {
    if (const PermitId id = own->numbers()) return id;
  }
}

}  // namespace sluice
