// sluice_memory_bench [ROUNDS [KEYS MANY_KEYS]]: compares the memory store with the bound and with
// the standard library's hash map. Google Benchmark measures; the variants take turns in each
// round, so that ratios can be taken within a round. Prints one line of JSON: for each variant a
// list over the rounds of the nanoseconds of CPU per decision, the bytes per key at both sizes and
// the most while the store grew, and the share of its memory that a store keeps when most keys have
// become fresh.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "memory/bound_table.h"
#include "memory/changing_store.h"
#include "memory/filled_store.h"
#include "memory/key_array.h"
#include "memory/mutex_map.h"

namespace {

using namespace sluice::bench;  // NOLINT(google-build-using-namespace): this file is its main.
using sluice::Instant;
using sluice::kStoreTime;

/// The least number of decisions in a measurement.
constexpr std::size_t kLeastDecisions = 1'000'000;
/// The most decisions before the clock starts, so that a variant starts with its own data in the
/// cache and not with those of the one before.
constexpr std::size_t kMostWarmUp = 1'000'000;

/// Keys, and the tables that hold them.
struct Scene {
  explicit Scene(std::size_t count) : keys(count), store(keys), bound(store.growth()) {}

  KeyArray keys;
  FilledStore store;
  BoundTable bound;
};

/// Measures `ask(answer)`, which makes `decisions` decisions and returns the next answer.
template <class Ask>
void measure(benchmark::State& state, std::size_t warm_up, std::int64_t decisions, Ask ask) {
  std::uint64_t answer = 0;
  for (std::size_t i = 0; i < warm_up; ++i) answer = ask(answer);
  for (auto _ : state) {
    answer = ask(answer);
    benchmark::DoNotOptimize(answer);
  }
  state.SetItemsProcessed(state.iterations() * decisions);
}

void add(const std::string& name, std::size_t iterations,
         std::function<void(benchmark::State&)> run) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(run))
      ->Iterations(static_cast<benchmark::IterationCount>(iterations));
}

void add_scene(const std::string& suffix, Scene* scene) {
  const std::size_t warm_up = std::min(scene->keys.size(), kMostWarmUp);
  const std::size_t iterations = std::max(warm_up, std::min(kLeastDecisions, 100 * warm_up));
  const auto walk = std::make_shared<Walk>(scene->keys);
  add("bound" + suffix, iterations, [=](benchmark::State& state) {
    measure(state, warm_up, 1, [scene, &walk = *walk](std::uint64_t answer) {
      return scene->bound.load(walk.next(answer));
    });
  });
  add("one" + suffix, iterations, [=](benchmark::State& state) {
    measure(state, warm_up, 1,
            [scene, &walk = *walk, now = scene->store.now()](std::uint64_t answer) {
              return scene->store.decide(walk.next(answer), now);
            });
  });
  add("one_clock" + suffix, iterations, [=](benchmark::State& state) {
    measure(state, warm_up, 1, [scene, &walk = *walk](std::uint64_t answer) {
      return scene->store.decide(walk.next(answer), kStoreTime);
    });
  });
  add("batch" + suffix, iterations / kBatch, [=](benchmark::State& state) {
    measure(state, warm_up / kBatch, kBatch,
            [scene, &walk = *walk, now = scene->store.now()](std::uint64_t answer) {
              return scene->store.decide_batch(&walk, answer, now);
            });
  });
}

/// A variant in batches of kBatch in which keys become fresh; `next(answer)` returns its next key.
template <class Next>
void add_changing(const std::string& name, std::size_t keys, std::size_t lifetime, Next next) {
  // Some visits of each key, so that all that is measured comes after the first.
  const std::size_t warm_up = 3 * keys / kBatch;
  const auto store = std::make_shared<ChangingStore>(lifetime);
  for (std::size_t i = 0; i < warm_up; ++i) store->decide_batch([&] { return next(0); });
  const std::size_t iterations = std::max<std::size_t>(1, std::max(keys, kLeastDecisions) / kBatch);
  add(name, iterations, [=](benchmark::State& state) {
    measure(state, iterations / 4, kBatch, [&store = *store, next](std::uint64_t answer) {
      return store.decide_batch([&] { return next(answer); });
    });
  });
}

/// Keys that are fresh at each visit, keys that are never seen, and both among others.
void add_changing(const Scene& few, const Scene& many) {
  const std::size_t keys = few.keys.size();
  const auto again = std::make_shared<Walk>(few.keys);
  add_changing("returning", keys, std::max<std::size_t>(1, keys / 2),
               [again](std::uint64_t answer) { return again->next(answer); });
  const auto on = std::make_shared<Walk>(many.keys);
  add_changing("never_seen", keys, keys, [on](std::uint64_t answer) { return on->next(answer); });
  const auto zipf = std::make_shared<ZipfStream>(many.keys, keys);
  add_changing("zipf", keys, keys, [zipf](std::uint64_t) { return zipf->next(); });
}

void add_others(Scene* scene, MutexMap* map) {
  const std::size_t warm_up = std::min(scene->keys.size(), kMostWarmUp);
  const std::size_t iterations = std::max(warm_up, std::min(kLeastDecisions, 100 * warm_up));
  const auto walk = std::make_shared<Walk>(scene->keys);
  add("hot", 4 * iterations, [=](benchmark::State& state) {
    measure(state, warm_up, 1, [scene, now = scene->store.now()](std::uint64_t) {
      return scene->store.decide_hot(now);
    });
  });
  add("unordered_map", iterations, [=](benchmark::State& state) {
    measure(state, warm_up, 1,
            [map, &walk = *walk, now = scene->store.now()](std::uint64_t answer) {
              return map->decide(walk.next(answer), now);
            });
  });
}

/// Collects the results of Google Benchmark instead of printing them.
class Collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      const auto rate = run.counters.find("items_per_second");
      if (rate == run.counters.end()) continue;
      figures_[run.run_name.function_name].push_back(1e9 / rate->second.value);
    }
  }

  void forget() { figures_.clear(); }

  const std::map<std::string, std::vector<double>>& figures() const { return figures_; }

 private:
  std::map<std::string, std::vector<double>> figures_;
};

double bytes_per_key(const Scene& scene) {
  return static_cast<double>(scene.store.growth().bytes) / static_cast<double>(scene.keys.size());
}

void print(const Collector& collector, const Scene& few, const Scene& many, double memory_left) {
  std::printf("{");
  for (const auto& [name, values] : collector.figures()) {
    std::printf("\"%s\":[", name.c_str());
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::printf("%s%.3f", i == 0 ? "" : ",", values[i]);
    }
    std::printf("],");
  }
  const sluice::bench::Resident& growth = many.store.growth();
  std::printf("\"memory_left\":%.3f,\"most_bytes_per_key\":%.2f,", memory_left,
              many.store.most_bytes_per_key());
  std::printf("\"bytes_per_key\":%.2f,\"bytes_per_key_many\":%.2f,\"huge_share\":%.2f}\n",
              bytes_per_key(few), bytes_per_key(many),
              static_cast<double>(growth.huge_bytes) /
                  static_cast<double>(std::max<std::size_t>(growth.bytes, 1)));
}

/// The argument as a number, or `otherwise` if it is missing. Exits if it is out of range.
std::size_t number_argument(int argc, char** argv, int index, std::size_t otherwise) {
  if (index >= argc) return otherwise;
  const unsigned long long number = std::strtoull(argv[index], nullptr, 10);
  if (number < 1 || number > 100'000'000) {
    std::fprintf(stderr, "sluice_memory_bench: '%s' is no number from 1 to 100000000\n",
                 argv[index]);
    std::exit(2);
  }
  return number;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::size_t rounds = number_argument(argc, argv, 1, 11);
  const std::size_t few_keys = number_argument(argc, argv, 2, 1'000'000);
  const double memory_left = share_of_memory_left(KeyArray(few_keys));
  Scene few(few_keys);
  Scene many(number_argument(argc, argv, 3, 10'000'000));
  MutexMap map;
  for (std::size_t i = 0; i < few.keys.size(); ++i) map.decide(few.keys.at(i), few.store.now());
  add_scene("", &few);
  add_scene("_many", &many);
  add_changing(few, many);
  add_others(&few, &map);
  Collector collector;
  for (std::size_t round = 0; round <= rounds; ++round) {
    benchmark::RunSpecifiedBenchmarks(&collector);
    if (round == 0) collector.forget();  // The first round warms up.
  }
  print(collector, few, many, memory_left);
  return EXIT_SUCCESS;
}
