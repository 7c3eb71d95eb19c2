// sluice_memory_rounds KEYS: what the benchmarks in other languages do, on the memory store. Says
// "ready" once every key has a state; then, for each line of standard input, asks for every key
// once, by the store's own clock, and prints the nanoseconds per decision: one by one, and in
// batches.

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "memory/filled_store.h"
#include "memory/key_array.h"

namespace {

using sluice::kStoreTime;
using sluice::bench::FilledStore;
using sluice::bench::kBatch;
using sluice::bench::KeyArray;
using sluice::bench::Walk;

/// Calls `ask(answer)` so many times, of `decisions` decisions each: nanoseconds per decision.
template <class Ask>
double time_ns(std::size_t times, std::size_t decisions, Ask ask) {
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t answer = 0;
  for (std::size_t i = 0; i < times; ++i) answer = ask(answer);
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / static_cast<double>(times * decisions);
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned long long count = argc == 2 ? std::strtoull(argv[1], nullptr, 10) : 0;
  if (count < kBatch || count > 100'000'000) {
    std::fputs("usage: sluice_memory_rounds KEYS (32 to 100000000)\n", stderr);
    return 2;
  }
  const KeyArray keys(count);
  FilledStore store(keys);
  Walk walk(keys);
  std::puts("ready");
  std::fflush(stdout);
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    const double one_ns = time_ns(count, 1, [&](std::uint64_t answer) {
      return store.decide(walk.next(answer), kStoreTime);
    });
    const double batch_ns = time_ns(count / kBatch, kBatch, [&](std::uint64_t answer) {
      return store.decide_batch(&walk, answer, kStoreTime);
    });
    std::printf("%.2f %.2f\n", one_ns, batch_ns);
    std::fflush(stdout);
  }
  return EXIT_SUCCESS;
}
