#include "service/metrics.h"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <tuple>

#include "service/metrics_text.h"
#include "sluice/health.h"

namespace sluice {
namespace {

using Type = MetricsText::Type;

// "memory" of "memory:?max_bytes=1048576".
std::string kind_of_store(const ServerContext& server) {
  const std::string& url = server.facts().store_url;
  return url.substr(0, url.find(':'));
}

void write_process(const ServerContext& server, MetricsText& out) {
  out.single("sluice_build_info", Type::kGauge, "The version of the server, as a label; always 1.",
             std::uint64_t{1}, {{"version", SLUICE_VERSION}});
  out.single("process_start_time_seconds", Type::kGauge,
             "When the server was started, in seconds since the Unix epoch.",
             in_seconds(server.started_at_wall()));
  out.single("process_resident_memory_bytes", Type::kGauge,
             "The bytes of the process that are in the machine's memory.", resident_bytes());
}

void write_attempts(const ServerContext::Attempts& attempts, MetricsText& out) {
  out.sample({{"outcome", "succeeded"}}, attempts.succeeded);
  out.sample({{"outcome", "failed"}}, attempts.failed);
}

void write_certificates(const ServerContext& server, MetricsText& out) {
  out.family("sluice_certificate_not_after_seconds", Type::kGauge,
             "When the certificate ends that is shown at this address, or the first of the chain "
             "behind it, in seconds since the Unix epoch.");
  const auto certificates = server.certificates().get();
  for (const ServedCertificate& each : *certificates) {
    out.sample({{"protocol", each.protocol}, {"listener", each.listener}},
               static_cast<double>(each.not_after_s));
  }
}

void write_reloads(const ServerContext& server, MetricsText& out) {
  out.family("sluice_reloads_total", Type::kCounter,
             "How often the server has read its files again, by whether it took what they say.");
  write_attempts(server.reloads(), out);
  out.single("sluice_last_reload_succeeded", Type::kGauge,
             "1, or 0 if the server did not take what its files said when it last read them.",
             std::uint64_t{server.reloads().last_succeeded});
  out.single("sluice_last_reload_time_seconds", Type::kGauge,
             "When the server last took what its files say, at its start or later, in seconds "
             "since the Unix epoch.",
             in_seconds(server.reloads().last_success));
}

void write_snapshots(const ServerContext& server, MetricsText& out) {
  out.family("sluice_snapshots_total", Type::kCounter,
             "How often a snapshot of the store was to be written, by whether it was.");
  write_attempts(server.snapshots(), out);
  out.single("sluice_last_snapshot_time_seconds", Type::kGauge,
             "When the server last wrote a snapshot, in seconds since the Unix epoch; 0 before the "
             "first.",
             in_seconds(server.snapshots().last_success));
  out.family("sluice_snapshot_interval_seconds", Type::kGauge,
             "How often a snapshot of the store is to be written.");
  const std::chrono::nanoseconds every = server.facts().snapshot_every;
  if (every.count() != 0) out.sample({}, in_seconds(every));
}

void write_decisions(const ServerContext& server, MetricsText& out) {
  out.family("sluice_decisions_total", Type::kCounter,
             "Decisions about requests that take units, by the limit's name, outcome and source.");
  using Row = std::tuple<std::string, std::string_view, std::string_view>;
  std::map<Row, std::uint64_t> rows;
  // The usual rows exist from the start, so that Prometheus sees their first decision as an
  // increase.
  for (const LimitCount& limit : server.limits()) {
    for (const std::string_view outcome : {"allowed", "denied"}) {
      rows[{limit.name, outcome, to_string(Source::kStore)}] = 0;
    }
  }
  for (const OutcomeCount& count : server.outcomes()) {
    const std::string_view outcome = count.outcome == Outcome::kAllowed  ? "allowed"
                                     : count.outcome == Outcome::kDenied ? "denied"
                                                                         : "would_deny";
    rows[{count.limit, outcome, to_string(count.source)}] += count.decisions;
  }
  for (const auto& [row, decisions] : rows) {
    const auto& [limit, outcome, source] = row;
    out.sample({{"limit", limit}, {"outcome", outcome}, {"source", source}}, decisions);
  }
}

void write_durations(const ServerContext& server, const std::string& store, MetricsText& out) {
  out.family("sluice_decision_duration_seconds", Type::kHistogram,
             "How long decisions took, with all that were asked in the same batch.");
  const DurationCounts counts = server.durations();
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i < DurationCounts::kBuckets; ++i) {
    so_far += counts.decisions[i];
    const bool is_last = i == DurationCounts::kBoundsNs.size();
    const double bound = is_last ? 0 : in_seconds(DurationCounts::kBoundsNs[i]);
    const std::string le = is_last ? "+Inf" : MetricsText::number(bound);
    out.sample({{"store", store}, {"le", le}}, so_far, "_bucket");
  }
  const auto sum_ns = static_cast<std::int64_t>(counts.sum_ns);
  out.sample({{"store", store}}, in_seconds(sum_ns), "_sum");
  out.sample({{"store", store}}, so_far, "_count");
}

void write_store(const ServerContext& server, const std::string& store, MetricsText& out) {
  const StoreHealth now = health(server.store());
  const auto counter = [&](std::string_view name, std::string_view help, std::uint64_t value) {
    out.single(name, Type::kCounter, help, value, {{"store", store}});
  };
  const auto time = [&](std::string_view name, std::string_view help,
                        std::chrono::nanoseconds value) {
    out.single(name, Type::kGauge, help, in_seconds(value), {{"store", store}});
  };
  const std::uint64_t is_up = now.state == StoreHealth::State::kUp ? 1 : 0;
  out.single("sluice_store_up", Type::kGauge,
             "1 while all servers of the store that are used are connected, else 0.", is_up,
             {{"store", store}});
  counter("sluice_store_lost_total", "How often the store was lost.", now.times_lost);
  time("sluice_store_deadline_seconds", "The deadline of a decision.", now.deadline);
  time("sluice_store_round_trip_p50_seconds",
       "The median round trip of the last 1024 replies of the store.", now.round_trip_p50);
  time("sluice_store_round_trip_p99_seconds",
       "The 99th percentile of the round trips of the last 1024 replies of the store.",
       now.round_trip_p99);
  counter("sluice_store_late_replies_total", "Replies of the store after the deadline.",
          now.late_replies);
  out.family("sluice_store_late_requests_total", Type::kCounter,
             "Requests without an answer by the deadline, by the side that was late: the store's "
             "server, or this process, which had no processor time.");
  out.sample({{"store", store}, {"side", "server"}}, now.late_server);
  out.sample({{"store", store}, {"side", "process"}}, now.late_here);
  counter("sluice_store_unanswered_total",
          "Decisions that the store did not answer, whatever answered in its place.",
          now.unanswered);
  counter("sluice_store_refused_total", "Requests that the store has refused with an error.",
          now.refused);
  counter("sluice_store_clock_behind_total",
          "Answers of the store that showed a clock to be more than a second behind.",
          now.clock_behind);
  counter("sluice_store_charged_back_units_total",
          "Units admitted by local states and charged to the store when it was back.",
          now.charged_back);
  counter("sluice_store_not_charged_back_units_total",
          "Units admitted by local states that may never be charged to the store.",
          now.not_charged_back);
  counter("sluice_store_evicted_keys_total",
          "Keys that a full memory store has evicted although they were not fresh.", now.evicted);
  counter("sluice_store_without_room_total",
          "Requests for a new key that found no room in a memory store: denied, or with full=allow "
          "admitted without a record.",
          now.without_room);
}

// If the store cannot tell, the families have no sample.
void write_keys(const ServerContext& server, const std::string& store, MetricsText& out) {
  out.family("sluice_store_keys", Type::kGauge, "Keys that have a state in a memory store.");
  if (const auto keys = server.store().count_keys()) out.sample({{"store", store}}, *keys);
  out.family("sluice_store_bytes", Type::kGauge, "Bytes of the states in a memory store.");
  if (const auto bytes = server.store().count_bytes()) out.sample({{"store", store}}, *bytes);
}

void write_connections(const ServerContext& server, MetricsText& out) {
  const auto protocols = server.protocols();
  const auto family = [&](std::string_view name, Type type, std::string_view help, auto read) {
    out.family(name, type, help);
    for (const auto& [protocol, counters] : protocols) {
      out.sample({{"protocol", protocol}}, std::uint64_t{read(*counters)});
    }
  };
  family("sluice_connections", Type::kGauge,
         "Open connections, without those that have not agreed on TLS yet.",
         [](const ProtocolCounters& counters) { return counters.open(); });
  family("sluice_connections_accepted_total", Type::kCounter, "Connections that were served.",
         [](const ProtocolCounters& counters) { return counters.accepted.load(); });
  family("sluice_connections_refused_total", Type::kCounter,
         "Connections that were refused, because too many were open.",
         [](const ProtocolCounters& counters) { return counters.refused.load(); });
  out.family("sluice_connections_timed_out_total", Type::kCounter,
             "Connections that were closed because the client did not begin a request in time, or "
             "did not send the rest of one, or did not read replies.");
  for (const auto& [protocol, counters] : protocols) {
    const auto sample = [&, name = std::string_view(protocol)](std::string_view reason,
                                                               std::uint64_t value) {
      out.sample({{"protocol", name}, {"reason", reason}}, value);
    };
    sample("idle", counters->timed_out_idle);
    sample("request", counters->timed_out_requests);
    sample("unread", counters->timed_out_unread);
  }
  family("sluice_connections_without_room_total", Type::kCounter,
         "Connections that were closed, because all together held as many bytes as they may.",
         [](const ProtocolCounters& counters) { return counters.without_room.load(); });
  family("sluice_accept_failures_total", Type::kCounter,
         "How often no connection could be accepted.",
         [](const ProtocolCounters& counters) { return counters.accept_failures.load(); });
  family("sluice_parse_errors_total", Type::kCounter,
         "Connections that were ended, because the server could not read what the client sent.",
         [](const ProtocolCounters& counters) { return counters.parse_errors.load(); });
  family("sluice_tls_handshake_failures_total", Type::kCounter,
         "Connections that were closed before they had agreed on TLS.",
         [](const ProtocolCounters& counters) { return counters.handshake_failures.load(); });
  family("sluice_login_timeouts_total", Type::kCounter,
         "Connections that were closed, because the client had not said who it is in time.",
         [](const ProtocolCounters& counters) { return counters.login_timeouts.load(); });
  out.single("sluice_wrong_tokens_total", Type::kCounter, "Wrong tokens that clients have sent.",
             server.access().wrong_tokens());
  out.single("sluice_max_connections", Type::kGauge, "The most connections at a time.",
             server.facts().max_connections);
}

}  // namespace

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total_pages = 0;
  std::uint64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return file ? resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

std::string metrics_text(const ServerContext& server) {
  MetricsText out;
  const std::string store = kind_of_store(server);
  write_process(server, out);
  write_reloads(server, out);
  write_snapshots(server, out);
  write_certificates(server, out);
  write_decisions(server, out);
  write_durations(server, store, out);
  write_store(server, store, out);
  write_keys(server, store, out);
  write_connections(server, out);
  return out.text();
}

}  // namespace sluice
