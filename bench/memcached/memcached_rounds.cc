// sluice_memcached_rounds PORT PID ROUNDS KEYS DECISIONS: compares our sliding window on a
// memcached with the usual one on libmemcached, 64 threads each. The variants take turns in each
// round. Prints one line of JSON with lists over the rounds: for each variant the time, this
// process's CPU and the server's CPU per decision; and the number of commands per decision of a
// single caller.

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "memcached/recipe_caller.h"
#include "remote/key_tape.h"
#include "remote/meter.h"
#include "remote/store_callers.h"
#include "remote/threads.h"
#include "sluice/sluice.h"
#include "stores/stores.h"

namespace {

using namespace sluice::bench;  // NOLINT(google-build-using-namespace): this file is its main.
using sluice::Limit;
using sluice::Limiter;

constexpr std::size_t kThreads = 64;
constexpr std::size_t kBatch = 16;
constexpr const char* kLimit = "sliding_window 1000/1h precision=6m";
constexpr RecipeCaller::Window kWindow{.limit = 1000, .counters = 10, .precision_s = 360};
/// The recipe is slower, so its rounds have fewer decisions by this factor.
constexpr std::uint64_t kRecipeShare = 32;
constexpr std::size_t kCountedDecisions = 1000;

struct Options {
  int port = 0;
  pid_t server = 0;
  std::size_t rounds = 0;
  std::size_t keys = 0;
  std::uint64_t decisions = 0;  // Per variant and round.
};

/// A compared variant; in each round, each of its callers makes `each` calls of `batch` decisions.
struct Variant {
  std::string name;
  std::unique_ptr<Load> load;
  std::size_t callers;
  std::uint64_t each;
  std::size_t batch = 1;
};

/// The URL of the server for our store. The deadline is long, so that the server makes all
/// decisions.
std::string url_of(const Options& options) {
  return "memcached://127.0.0.1:" + std::to_string(options.port) + "?deadline=30s";
}

void check(const sluice::Decision& decision) {
  if (!decision.allowed || decision.source != sluice::Source::kStore) {
    throw std::runtime_error("a request was not admitted by the store");
  }
}

std::unique_ptr<Load> recipe_threads(const Options& options, KeyCursor& keys) {
  std::vector<Threads::Ask> callers;
  for (std::size_t i = 0; i < kThreads; ++i) {
    callers.emplace_back([&keys, caller = std::make_shared<RecipeCaller>(options.port, kWindow)] {
      caller->ask(keys.next());
    });
  }
  return std::make_unique<Threads>(std::move(callers));
}

std::unique_ptr<Load> our_threads(const std::shared_ptr<Limiter>& limiter, KeyCursor& keys) {
  const Threads::Ask ask = [&keys, limiter] { check(limiter->check(keys.next())); };
  return std::make_unique<Threads>(std::vector<Threads::Ask>(kThreads, ask));
}

/// Each thread asks for kBatch keys at once, as a server does for one read of a connection.
std::unique_ptr<Load> our_batches(const std::shared_ptr<sluice::Store>& store, const Limit& limit,
                                  KeyCursor& keys) {
  const Threads::Ask ask = [&keys, store, limit, space = store->open_space(limit.definition())] {
    std::array<sluice::Request, kBatch> requests;
    std::array<sluice::Decision, kBatch> decisions;
    for (sluice::Request& request : requests) {
      request = {.limit = &limit.definition(), .space = space.get(), .key = keys.next()};
    }
    store->decide(requests, sluice::kStoreTime, decisions);
    for (const sluice::Decision& decision : decisions) check(decision);
  };
  return std::make_unique<Threads>(std::vector<Threads::Ask>(kThreads, ask));
}

/// Threads that only wait for each other, once instead of each decision: the minimum cost of a
/// decision for which a thread sleeps.
std::unique_ptr<Load> waiting_threads() {
  struct Barrier {
    Barrier() { pthread_barrier_init(&all, nullptr, kThreads); }
    ~Barrier() { pthread_barrier_destroy(&all); }
    pthread_barrier_t all;
  };
  const Threads::Ask ask = [barrier = std::make_shared<Barrier>()] {
    pthread_barrier_wait(&barrier->all);
  };
  return std::make_unique<Threads>(std::vector<Threads::Ask>(kThreads, ask));
}

/// Gives every key a unit in each sub-window of the present window, like a key that has been in use
/// for a while.
void fill(const Options& options, const KeyTape& tape) {
  RecipeCaller recipe(options.port, kWindow);
  for (std::size_t i = 0; i < tape.keys(); ++i) recipe.fill(tape.at(i));
}

void fill(const KeyTape& tape, sluice::Store& store, const Limit& limit) {
  const auto space = store.open_space(limit.definition());
  const sluice::Instant now = store.now();
  for (std::int64_t before = kWindow.counters - 1; before >= 0; --before) {
    const sluice::Instant then = now - before * kWindow.precision_s * 1'000'000'000;
    for (std::size_t i = 0; i < tape.keys(); i += kBatch) {
      std::array<sluice::Request, kBatch> requests;
      std::array<sluice::Decision, kBatch> decisions;
      for (std::size_t j = 0; j < kBatch; ++j) {
        requests[j] = {.limit = &limit.definition(), .space = space.get(), .key = tape.at(i + j)};
      }
      store.decide(requests, then, decisions);
      for (const sluice::Decision& decision : decisions) check(decision);
    }
  }
}

/// The number of commands that the server executes per decision of a single caller.
double count_commands(const Options& options, const std::function<void()>& ask) {
  const std::unique_ptr<memcached_st, decltype(&memcached_free)> server(memcached_create(nullptr),
                                                                        memcached_free);
  memcached_server_add(server.get(), "127.0.0.1", static_cast<in_port_t>(options.port));
  const auto commands = [&] {
    memcached_return_t code = MEMCACHED_SUCCESS;
    memcached_stat_st* stats = memcached_stat(server.get(), nullptr, &code);
    if (stats == nullptr) throw std::runtime_error("the server tells no statistics");
    const auto count = static_cast<double>(stats->cmd_get + stats->cmd_set);
    memcached_stat_free(server.get(), stats);
    return count;
  };
  const double before = commands();
  for (std::size_t i = 0; i < kCountedDecisions; ++i) ask();
  return (commands() - before) / static_cast<double>(kCountedDecisions);
}

void measure(const Options& options, const KeyTape& tape, Figures& figures) {
  KeyCursor recipe_keys(tape);
  KeyCursor our_keys(tape);
  const Limit limit(kLimit, "bench");
  // The store without fallback has separate keys, since a store remembers the values that it wrote
  // last.
  const Limit bare_limit(kLimit, "bare");
  const auto store = sluice::open_store(url_of(options));
  const auto bare = sluice::open_bare_store(url_of(options));
  await_store(*store, limit);
  await_store(*bare, bare_limit);
  const auto limiter = std::make_shared<Limiter>(store, limit);
  constexpr std::size_t kCallers = kThreads * kBatch;
  const auto each = [&](std::size_t callers) {
    return std::max<std::uint64_t>(options.decisions / callers, 1);
  };
  std::vector<Variant> variants;
  variants.push_back({"libmemcached", recipe_threads(options, recipe_keys), kThreads,
                      std::max<std::uint64_t>(each(kThreads) / kRecipeShare, 1)});
  variants.push_back({"threads", our_threads(limiter, our_keys), kThreads, each(kThreads)});
  variants.push_back(
      {"batches", our_batches(store, limit, our_keys), kThreads, each(kCallers), kBatch});
  variants.push_back({"callers", std::make_unique<StoreCallers>(bare, bare_limit, tape, kCallers),
                      kCallers, each(kCallers)});
  variants.push_back({"waiting", waiting_threads(), kThreads, each(kThreads)});
  fill(options, tape);
  fill(tape, *store, limit);
  fill(tape, *bare, bare_limit);
  // The first round warms up.
  for (const Variant& one : variants) one.load->run(one.each);
  const Meter meter(options.server);
  for (std::size_t round = 0; round < options.rounds; ++round) {
    for (const Variant& one : variants) {
      const auto decisions = static_cast<double>(one.callers * one.each * one.batch);
      add_cost(figures, one.name, meter.measure(decisions, [&] { one.load->run(one.each); }));
    }
  }
  figures["commands"] = {count_commands(options, [&] { check(limiter->check(our_keys.next())); })};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fputs("usage: sluice_memcached_rounds PORT PID ROUNDS KEYS DECISIONS\n", stderr);
    return 2;
  }
  try {
    const Options options{.port = static_cast<int>(number_argument(argv[1])),
                          .server = static_cast<pid_t>(number_argument(argv[2])),
                          .rounds = number_argument(argv[3]),
                          .keys = number_argument(argv[4]),
                          .decisions = number_argument(argv[5])};
    const KeyTape tape{KeyArray(options.keys)};
    Figures figures;
    measure(options, tape, figures);
    print_figures(figures);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sluice_memcached_rounds: %s\n", error.what());
    return 1;
  }
  return EXIT_SUCCESS;
}
