#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "core/arithmetic.h"
#include "protocols/resp/command_functions.h"
#include "protocols/resp/commands.h"
#include "protocols/resp/words.h"
#include "service/metrics.h"
#include "sluice/health.h"

namespace sluice::resp {
namespace {

void add_line(std::string& text, std::string_view name, std::string_view value) {
  text += name;
  text += ':';
  text += value;
  text += "\r\n";
}

void add_line(std::string& text, std::string_view name, std::uint64_t value) {
  add_line(text, name, std::to_string(value));
}

CommandCounters::Counts counts_of(const SharedState& shared, std::size_t row) {
  CommandCounters::Counts all;
  for (const CommandCounters& thread : shared.commands) {
    const auto [calls, rejected] = thread.read(row);
    all.calls += calls;
    all.rejected += rejected;
  }
  return all;
}

void write_server(const ThreadState& thread, std::string& text) {
  const ServerContext& server = *thread.server;
  add_line(text, "sluice_version", SLUICE_VERSION);
  add_line(text, "mode", "standalone");
  add_line(text, "loading", 0);
  add_line(text, "process_id", static_cast<std::uint64_t>(getpid()));
  add_line(text, "threads", server.threads());
  const Instant up = std::max<Instant>(0, server.store().now() - server.started_at());
  add_line(text, "uptime_in_seconds", static_cast<std::uint64_t>(up / kSecondNs));
}

void write_clients(const ThreadState& thread, std::string& text) {
  add_line(text, "connected_clients", thread.counters.open());
  add_line(text, "blocked_clients", 0);  // redis-cli --stat prints it.
  add_line(text, "maxclients", thread.server->facts().max_connections);
}

void write_memory(const ThreadState& /*thread*/, std::string& text) {
  const std::uint64_t bytes = resident_bytes();
  add_line(text, "used_memory", bytes);
  add_line(text, "used_memory_rss", bytes);
}

void write_stats(const ThreadState& thread, std::string& text) {
  add_line(text, "total_connections_received", thread.counters.accepted);
  std::uint64_t calls = 0;
  for (std::size_t row = 0; row < commands().size(); ++row) {
    // A call of a subcommand also counts as one of its command.
    if (!commands()[row].is_subcommand()) calls += counts_of(*thread.shared, row).calls;
  }
  add_line(text, "total_commands_processed", calls);
}

// A server has no replicas: those of a store on Redis are that store's. Valkey's client GLIDE asks
// for the role, and uses no server that does not tell it.
void write_replication(const ThreadState& /*thread*/, std::string& text) {
  add_line(text, "role", "master");
  add_line(text, "connected_slaves", 0);
}

// The two names of CL.THROTTLE are counted as one, because a pipeline of repeated commands does not
// distinguish them.
CommandCounters::Counts counts_of_command(const SharedState& shared, std::size_t row) {
  const std::size_t other_name =
      static_cast<std::size_t>(find_command("RL.THROTTLE") - &commands()[0]);
  if (row == other_name) return {};
  CommandCounters::Counts counts = counts_of(shared, row);
  if (row != kThrottleRow) return counts;
  const auto [calls, rejected] = counts_of(shared, other_name);
  return {.calls = counts.calls + calls, .rejected = counts.rejected + rejected};
}

// Clients take a value of several fields apart, and leave one of a single field as it is.
void write_commandstats(const ThreadState& thread, std::string& text) {
  for (std::size_t row = 0; row < commands().size(); ++row) {
    const auto [calls, rejected] = counts_of_command(*thread.shared, row);
    if (calls == 0 && rejected == 0) continue;
    add_line(text, "cmdstat_" + in_small_letters(commands()[row].name),
             "calls=" + std::to_string(calls) + ",rejected_calls=" + std::to_string(rejected));
  }
}

// The state of each key ends by itself.
void write_keyspace(const ThreadState& thread, std::string& text) {
  const auto keys = thread.server->store().count_keys();
  if (!keys || *keys == 0) return;
  const std::string count = std::to_string(*keys);
  add_line(text, "db0", "keys=" + count + ",expires=" + count);
}

std::uint64_t in_microseconds(std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::microseconds>(time).count());
}

void write_store(const ThreadState& thread, std::string& text) {
  const StoreHealth now = health(thread.server->store());
  add_line(text, "store", thread.server->facts().store_url);
  add_line(text, "store_state", now.state == StoreHealth::State::kUp ? "up" : "down");
  add_line(text, "round_trip_p50_usec", in_microseconds(now.round_trip_p50));
  add_line(text, "round_trip_p99_usec", in_microseconds(now.round_trip_p99));
  add_line(text, "evicted_keys", now.evicted);
  add_line(text, "without_room", now.without_room);
}

// The store, and decisions by outcome and source: "allowed_store" and so on.
void write_sluice(const ThreadState& thread, std::string& text) {
  const ServerContext& server = *thread.server;
  write_store(thread, text);
  add_line(text, "limits", server.limits().size() - 1);  // Without the row of all others.
  std::array<std::array<std::uint64_t, OutcomeCounters::kSources>, 2> counts{};
  std::uint64_t would_deny = 0;
  for (const OutcomeCount& row : server.outcomes()) {
    const bool is_denied = row.outcome == Outcome::kDenied;
    counts[is_denied ? 1 : 0][static_cast<std::size_t>(row.source)] += row.decisions;
    if (row.outcome == Outcome::kWouldDeny) would_deny += row.decisions;
  }
  for (const bool is_allowed : {true, false}) {
    for (std::size_t i = 0; i < OutcomeCounters::kSources; ++i) {
      const auto source = static_cast<Source>(i);
      if (is_allowed && source == Source::kUnavailable) continue;  // Never is.
      const std::string outcome = is_allowed ? "allowed_" : "denied_";
      add_line(text, outcome + std::string(to_string(source)), counts[is_allowed ? 0 : 1][i]);
    }
  }
  add_line(text, "would_deny", would_deny);
}

struct Section {
  std::string_view name;
  void (*write)(const ThreadState& thread, std::string& text);
};

constexpr std::array kSections = std::to_array<Section>({{"Server", write_server},
                                                         {"Clients", write_clients},
                                                         {"Memory", write_memory},
                                                         {"Stats", write_stats},
                                                         {"Replication", write_replication},
                                                         {"Commandstats", write_commandstats},
                                                         {"Keyspace", write_keyspace},
                                                         {"Sluice", write_sluice}});

bool is_wanted(const Section& section, Arguments wanted) {
  const std::string name = in_small_letters(section.name);
  return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&](std::string_view word) {
           return is_word(word, "DEFAULT") || is_word(word, "ALL") || is_word(word, "EVERYTHING") ||
                  in_small_letters(word) == name;
         });
}

}  // namespace

void run_info(CommandContext& context, Arguments arguments) {
  if (context.waits_for_decisions()) return;
  std::string text;
  for (const Section& section : kSections) {
    if (!is_wanted(section, arguments.subspan(1))) continue;
    if (!text.empty()) text += "\r\n";
    text += "# " + std::string(section.name) + "\r\n";
    section.write(context.thread, text);
  }
  context.reply().verbatim(text);
}

}  // namespace sluice::resp
