// sluice_redis_rounds PORT PID SHA ROUNDS KEYS DECISIONS CALLS: compares our store on a
// redis-server with hiredis and a lean GCRA script (load/gcra.lua, which the server has loaded as
// SHA). The variants take turns in each round. Prints one line of JSON with lists over the rounds:
// for each variant of many callers the time, this process's CPU and the server's CPU per decision;
// for each blocking caller the median and the 99th percentile of its waits.

#include <hiredis/hiredis.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "memory/key_array.h"
#include "redis/hiredis_callers.h"
#include "remote/key_tape.h"
#include "remote/meter.h"
#include "remote/store_callers.h"
#include "sluice/sluice.h"
#include "stores/stores.h"

namespace {

using namespace sluice::bench;  // NOLINT(google-build-using-namespace): this file is its main.
using sluice::Limit;
using sluice::Limiter;

constexpr std::size_t kCallers = 256;
constexpr const char* kTokenBucket = "token_bucket 1/1h burst=1001";

struct Options {
  int port = 0;
  pid_t server = 0;
  std::string sha;
  std::size_t rounds = 0;
  std::size_t keys = 0;
  std::uint64_t decisions = 0;  // Per variant and round.
  std::size_t calls = 0;        // Per blocking caller and round.
};

struct NamedLoad {
  std::string name;
  std::unique_ptr<Load> load;
};

/// The URL of the server for our store. The deadline is long, so that the server makes all
/// decisions.
std::string url_of(const Options& options, int database) {
  return "redis://127.0.0.1:" + std::to_string(options.port) + "/" + std::to_string(database) +
         "?deadline=30s";
}

/// Each variant has a separate database, so that its keys are not among those of others.
std::vector<NamedLoad> make_loads(const Options& options, const KeyTape& tape) {
  std::vector<NamedLoad> loads;
  int database = 0;
  for (const bool caller_clock : {false, true}) {
    GcraScript script{.port = options.port,
                      .database = ++database,
                      .sha = options.sha,
                      .caller_clock = caller_clock};
    loads.push_back({caller_clock ? "gcra, caller's clock" : "gcra",
                     std::make_unique<HiredisCallers>(std::move(script), tape, kCallers)});
  }
  const auto add = [&](std::string name, std::shared_ptr<sluice::Store> store,
                       std::string_view limit_text) {
    const Limit limit(limit_text, "bench");
    await_store(*store, limit);
    loads.push_back(
        {std::move(name), std::make_unique<StoreCallers>(std::move(store), limit, tape, kCallers)});
  };
  add("token_bucket, with fallback", sluice::open_store(url_of(options, ++database)), kTokenBucket);
  for (const auto& [name, limit_text] : std::initializer_list<std::pair<const char*, const char*>>{
           {"token_bucket", kTokenBucket},
           {"fixed_window", "fixed_window 1000/1h"},
           {"sliding_counter", "sliding_counter 1000/1h"},
           {"sliding_window", "sliding_window 1000/1h"},
           {"sliding_log", "sliding_log 1000/1h"},
           {"a & b", "token_bucket 1/1h burst=1001 & fixed_window 1000/1h"}}) {
    add(name, sluice::open_bare_store(url_of(options, ++database)), limit_text);
  }
  return loads;
}

void measure_loads(const Options& options, const KeyTape& tape, Figures& figures) {
  const Meter meter(options.server);
  std::vector<NamedLoad> loads = make_loads(options, tape);
  const std::uint64_t each = std::max<std::uint64_t>(options.decisions / kCallers, 1);
  // The first round warms up, and gives every key a state.
  for (const NamedLoad& one : loads) one.load->run(tape.keys() / kCallers + 1);
  for (std::size_t round = 0; round < options.rounds; ++round) {
    for (const NamedLoad& one : loads) {
      add_cost(figures, one.name,
               meter.measure(static_cast<double>(each * kCallers), [&] { one.load->run(each); }));
    }
  }
}

/// Makes one decision after the other with blocking hiredis.
class HiredisCaller {
 public:
  HiredisCaller(int port, std::string sha)
      : sha_(std::move(sha)), connection_(redisConnect("127.0.0.1", port), redisFree) {
    if (!connection_ || connection_->err != 0) {
      throw std::runtime_error("hiredis cannot connect to the server");
    }
  }

  void ask(std::string_view key) {
    auto* reply = static_cast<redisReply*>(redisCommand(
        connection_.get(), "EVALSHA %s 1 %b 1000 1 3600", sha_.c_str(), key.data(), key.size()));
    const bool admitted =
        reply != nullptr && reply->elements == 5 && reply->element[0]->integer == 0;
    if (reply != nullptr) freeReplyObject(reply);
    if (!admitted) throw std::runtime_error("the script did not admit a request of hiredis");
  }

 private:
  std::string sha_;
  std::unique_ptr<redisContext, decltype(&redisFree)> connection_;
};

/// Makes `calls` calls, and adds the median and the 99th percentile of their waits.
void time_calls(Figures& figures, const std::string& name, std::size_t calls,
                const std::function<void()>& ask) {
  std::vector<double> waits;
  waits.reserve(calls);
  for (std::size_t i = 0; i < calls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    ask();
    const std::chrono::duration<double, std::nano> wait = std::chrono::steady_clock::now() - begin;
    waits.push_back(wait.count());
  }
  std::sort(waits.begin(), waits.end());
  figures[name + ", median"].push_back(waits[calls / 2]);
  figures[name + ", p99"].push_back(waits[calls * 99 / 100]);
}

void measure_calls(const Options& options, const KeyTape& tape, Figures& figures) {
  const Limit limit(kTokenBucket, "blocking");
  const auto store = sluice::open_store(url_of(options, 0));
  await_store(*store, limit);
  Limiter limiter(store, limit);
  HiredisCaller hiredis(options.port, options.sha);
  KeyCursor our_keys(tape);
  KeyCursor their_keys(tape);
  const auto ask_ours = [&] {
    const sluice::Decision decision = limiter.check(our_keys.next());
    if (!decision.allowed || decision.source != sluice::Source::kStore) {
      throw std::runtime_error("a request was not admitted by the store");
    }
  };
  const auto ask_theirs = [&] { hiredis.ask(their_keys.next()); };
  Figures warm_up;
  for (std::size_t round = 0; round <= options.rounds; ++round) {
    Figures& into = round == 0 ? warm_up : figures;
    time_calls(into, "one caller, hiredis", options.calls, ask_theirs);
    time_calls(into, "one caller", options.calls, ask_ours);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fputs("usage: sluice_redis_rounds PORT PID SHA ROUNDS KEYS DECISIONS CALLS\n", stderr);
    return 2;
  }
  try {
    const Options options{.port = static_cast<int>(number_argument(argv[1])),
                          .server = static_cast<pid_t>(number_argument(argv[2])),
                          .sha = argv[3],
                          .rounds = number_argument(argv[4]),
                          .keys = number_argument(argv[5]),
                          .decisions = number_argument(argv[6]),
                          .calls = number_argument(argv[7])};
    const KeyTape tape{KeyArray(options.keys)};
    Figures figures;
    measure_loads(options, tape, figures);
    measure_calls(options, tape, figures);
    print_figures(figures);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sluice_redis_rounds: %s\n", error.what());
    return 1;
  }
  return EXIT_SUCCESS;
}
