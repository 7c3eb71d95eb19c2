// sluice_library_rounds ROUNDS OPERATIONS: measures what the library's calls cost in addition to
// the store's decision, on one hot key in memory. The variants take turns in each round. Prints one
// line of JSON: for each variant a list over the rounds of the nanoseconds of CPU per operation.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "sluice/sluice.h"

namespace {

using namespace std::chrono_literals;
using sluice::Decision;
using sluice::Limit;

constexpr const char* kKey = "customer:12345678";
// Wide enough to admit all requests, since denials cost less.
constexpr const char* kBucket = "token_bucket 1000000000/1s burst=1000000000";
constexpr const char* kWindow = "fixed_window 9007199254740991/1d";

double cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

struct Variant {
  std::string name;
  /// Runs the operation. Returns whether all were admitted.
  std::function<bool(std::size_t operations)> run;
  std::vector<double> figures = {};
};

template <class Operation>
std::function<bool(std::size_t)> times(Operation operation) {
  return [operation](std::size_t operations) {
    bool admitted = true;
    for (std::size_t i = 0; i < operations; ++i) admitted = operation() && admitted;
    return admitted;
  };
}

std::vector<Variant> variants(const std::shared_ptr<sluice::Store>& store) {
  std::vector<Variant> all;
  for (const auto& [name, expression] : {std::pair("bucket", kBucket), {"window", kWindow}}) {
    const Limit limit(expression, name);
    const auto limiter = std::make_shared<sluice::Limiter>(store, limit);
    const auto space = store->open_space(limit.definition());
    const std::string prefix = std::string(name) + "_";
    all.push_back({prefix + "decide", times([store, limit, space] {
                     const sluice::Request request{
                         .limit = &limit.definition(), .space = space.get(), .key = kKey};
                     Decision decision;
                     store->decide({&request, 1}, sluice::kStoreTime, {&decision, 1});
                     return decision.allowed;
                   })});
    all.push_back({prefix + "check", times([limiter] { return limiter->check(kKey).allowed; })});
    all.push_back(
        {prefix + "acquire", times([limiter] { return limiter->acquire(kKey).allowed; })});
  }
  const auto permits =
      std::make_shared<sluice::ConcurrencyLimiter>(store, Limit("concurrency 100", "permits"));
  all.push_back({"permit", times([permits] {
                   const sluice::Permit permit = permits->try_acquire(kKey);
                   return static_cast<bool>(permit);
                 })});
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: sluice_library_rounds ROUNDS OPERATIONS\n", stderr);
    return 2;
  }
  const int rounds = std::atoi(argv[1]);
  const auto operations = static_cast<std::size_t>(std::atoll(argv[2]));
  auto all = variants(sluice::open_store("memory:"));
  for (int round = -1; round < rounds; ++round) {
    for (Variant& variant : all) {
      const double begin = cpu_ns();
      if (!variant.run(operations)) {
        std::fprintf(stderr, "%s: not admitted\n", variant.name.c_str());
        return 1;
      }
      // The first round warms up.
      if (round < 0) continue;
      variant.figures.push_back((cpu_ns() - begin) / static_cast<double>(operations));
    }
  }
  const char* separator = "{";
  for (const Variant& variant : all) {
    std::printf("%s\"%s\": [", separator, variant.name.c_str());
    for (std::size_t i = 0; i < variant.figures.size(); ++i) {
      std::printf("%s%.3f", i == 0 ? "" : ", ", variant.figures[i]);
    }
    std::printf("]");
    separator = ", ";
  }
  std::printf("}\n");
}
