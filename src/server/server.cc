#include "server/server.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/descriptors.h"
#include "core/limit_syntax.h"
#include "core/number_text.h"
#include "net/address.h"
#include "net/stream_server.h"
#include "server/certificate_dates.h"
#include "server/check_options.h"
#include "server/limit_changes.h"
#include "server/listening.h"
#include "server/protocols.h"
#include "server/store_log.h"
#include "service/server_context.h"
#include "sluice/store.h"
#include "stores/memory/memory_store.h"
#include "stores/url.h"

namespace sluice {
namespace {

std::atomic<std::uint64_t>& counter_of(ProtocolCounters& counters, ConnectionEvent event) {
  switch (event) {
    case ConnectionEvent::kRefused:
      return counters.refused;
    case ConnectionEvent::kIdle:
      return counters.timed_out_idle;
    case ConnectionEvent::kHalfRequest:
      return counters.timed_out_requests;
    case ConnectionEvent::kNoLogin:
      return counters.login_timeouts;
    case ConnectionEvent::kNoMemory:
      return counters.without_room;
    case ConnectionEvent::kUnread:
      break;
  }
  return counters.timed_out_unread;
}

using NextWarning = std::atomic<std::chrono::steady_clock::time_point>;

/// Warns of what befalls many connections: at most once a minute. Thread-safe.
void warn_at_times(NextWarning& next_warning, const LogFunction& log, std::string_view event,
                   const std::string& message) {
  const auto now = std::chrono::steady_clock::now();
  auto next = next_warning.load();
  if (now < next) return;
  if (!next_warning.compare_exchange_strong(next, now + std::chrono::minutes(1))) return;
  log({LogLevel::kWarning, event, message});
}

/// Descriptors for other things than connections: listeners, loops, files, the store.
constexpr std::size_t kOtherDescriptors = 1024;
/// The fewest of them with which a server works, apart from the loop of each thread and the
/// listener of each address.
constexpr std::size_t kLeastOtherDescriptors = 64;
constexpr std::size_t kLoopDescriptors = 4;

/// Connections that only the addresses of admin may open, so that operators reach a server whose
/// clients hold all others.
constexpr std::size_t kAdminConnections = 16;

std::size_t usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&cores)));
}

bool has_admin(const std::vector<Listening>& listening) {
  return std::ranges::any_of(listening,
                             [](const Listening& each) { return each.protocol->is_admin; });
}

void report_slow_decisions(ServerContext& context, std::chrono::nanoseconds threshold,
                           const LogFunction& log) {
  SlowDecisions& slow = context.slow_decisions();
  slow.set_report([log, store = context.facts().store_url](const SlowBatch& batch) {
    const std::chrono::duration<double> seconds = batch.duration;
    const auto duration = std::chrono::ceil<std::chrono::microseconds>(batch.duration);
    std::string message = counted(batch.decisions, "decision") + " by " + batch.limits + " took " +
                          format_duration(std::chrono::nanoseconds(duration).count()) +
                          " in the store " + store;
    if (batch.left_out != 0) {
      message += "; " + std::to_string(batch.left_out) + " slow batches before had no line";
    }
    log({LogLevel::kWarning,
         "slow_decisions",
         std::move(message),
         {{"limits", batch.limits},
          {"decisions", static_cast<std::int64_t>(batch.decisions)},
          {"seconds", seconds.count()},
          {"store", store},
          {"left_out", static_cast<std::int64_t>(batch.left_out)}}});
  });
  slow.set_threshold(threshold);
}

/// The most connections for which the system lets this process open descriptors: clients get fewer
/// than the options say, so that the server's own descriptors and the connections of admin are
/// left. Throws std::runtime_error if none would be left for clients.
std::size_t possible_connections(const ServerOptions& options, std::size_t threads,
                                 std::size_t addresses, const LogFunction& log) {
  const std::size_t wanted = options.max_connections;
  const std::size_t reserved =
      kAdminConnections + kLeastOtherDescriptors + threads * kLoopDescriptors + addresses;
  const std::size_t allowed = allow_descriptors(wanted + reserved + kOtherDescriptors);
  const std::string why =
      "the system allows this process " + std::to_string(allowed) +
      " open files (ulimit -Hn, LimitNOFILE of systemd), and the server needs " +
      std::to_string(reserved) + " of them itself";
  if (allowed <= reserved) throw std::runtime_error("no client could connect: " + why);
  const std::size_t possible = allowed - reserved;
  if (possible >= wanted) return wanted;
  log({LogLevel::kWarning,
       "fewer_connections",
       "at most " + counted(possible, "connection") + " at a time, not " + std::to_string(wanted) +
           ": " + why,
       {{"connections", static_cast<std::int64_t>(possible)},
        {"wanted", static_cast<std::int64_t>(wanted)},
        {"open_files", static_cast<std::int64_t>(allowed)}}});
  return possible;
}

std::chrono::nanoseconds snapshot_every(const ServerOptions& options) {
  return options.snapshot.file.empty() ? std::chrono::nanoseconds(0) : options.snapshot.every;
}

std::size_t choose_threads(const ServerOptions& options) {
  if (options.threads > kMaxThreads) {
    throw ConfigError(std::to_string(options.threads) + " threads are too many, " +
                      std::to_string(kMaxThreads) + " are the most");
  }
  return options.threads != 0 ? options.threads : std::min(usable_cores(), kMaxThreads);
}

}  // namespace

struct Server::Parts {
  /// When each of these may be warned of again.
  struct NextWarnings {
    NextWarning clients_full;
    NextWarning connections_full;
    NextWarning cannot_accept;
    NextWarning tls_failed;
  };

  LogFunction log;
  std::vector<PassedSocket> passed_sockets;
  std::vector<Listening> listening;  // In the order of the stream server's addresses.
  TlsServers tls_servers;
  std::size_t threads = 1;
  std::vector<NamedLimit> limits;
  std::string store;
  std::string store_url;  // Without a password.
  std::shared_ptr<ServerContext> context;
  std::map<const ServedProtocol*, MakeHandler> handlers;
  std::shared_ptr<NextWarnings> next_warnings = std::make_shared<NextWarnings>();
  std::optional<SnapshotKeeper> snapshots;
  SnapshotOptions snapshot;
  std::optional<StreamServer> streams;

  std::vector<Service> services_of(const std::vector<Listening>& served, const TlsServers& tls);
  /// Tells the context which certificates are shown where. Where memory is lacking, the process
  /// ends: a reload that has come so far cannot be undone.
  void note_certificates() noexcept;
};

// The services at these addresses. Those of one protocol share their handlers.
std::vector<Service> Server::Parts::services_of(const std::vector<Listening>& served,
                                                const TlsServers& tls) {
  std::vector<Service> services;
  for (const auto& [protocol, address, files, passed_socket] : served) {
    const auto tls_server = tls.find(files);
    MakeHandler& make = handlers[protocol];
    if (make == nullptr) make = protocol->handlers(context);
    const auto on_event = [shared = context, &counters = context->protocol(protocol->name),
                           log = log, next = next_warnings](ConnectionEvent event) {
      ++counter_of(counters, event);
      if (event == ConnectionEvent::kNoMemory) {
        warn_at_times(next->clients_full, log, "clients_full",
                      "connections are closed that hold much: all together hold as much as they "
                      "may (max_client_bytes)");
      }
      if (event == ConnectionEvent::kRefused) {
        warn_at_times(next->connections_full, log, "connections_full",
                      "connections are refused: at most " +
                          std::to_string(shared->facts().max_connections) +
                          " may be open at a time (--max-connections)");
      }
    };
    const auto on_tls_failure = [shared = context, &counters = context->protocol(protocol->name),
                                 log = log, next = next_warnings](const std::string& peer,
                                                                  const std::string& why) {
      ++counters.handshake_failures;
      if (why.empty()) return;  // Balancers connect and leave, to see that the server is there.
      warn_at_times(next->tls_failed, log, "tls_failed",
                    (peer == "unix:" ? "a client of this machine" : "a client at " + peer) +
                        " and the server do not agree on TLS: " + why);
    };
    const auto on_accept_failure = [shared = context, &counters = context->protocol(protocol->name),
                                    log = log, next = next_warnings](const std::string& why) {
      ++counters.accept_failures;
      warn_at_times(next->cannot_accept, log, "cannot_accept",
                    "connections wait, since none can be accepted: " + why);
    };
    services.push_back({.address = address,
                        .make_handler = make,
                        .refusal = std::string(protocol->refusal),
                        .timeouts = protocol->timeouts,
                        .reserve = protocol->is_admin ? kAdminConnections : 0,
                        .tls = tls_server == tls.end() ? nullptr : tls_server->second,
                        .on_event = on_event,
                        .on_tls_failure = on_tls_failure,
                        .on_accept_failure = on_accept_failure,
                        .protocol = protocol->name,
                        .passed_socket = passed_socket});
  }
  return services;
}

void Server::Parts::note_certificates() noexcept {
  std::vector<ServedCertificate> shown;
  const std::vector<Address> addresses = streams->addresses();
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto tls = tls_servers.find(listening[i].tls);
    if (tls == tls_servers.end()) continue;
    shown.push_back({listening[i].protocol->name, addresses[i].text(), tls->second->not_after_s()});
  }
  context->certificates().replace(
      std::make_shared<const std::vector<ServedCertificate>>(std::move(shown)));
}

Server::Server(const ServerOptions& options, LogFunction log) : parts_(std::make_unique<Parts>()) {
  parts_->log = std::move(log);
  parts_->passed_sockets = options.passed_sockets;
  parts_->listening = read_addresses(options, parts_->passed_sockets);
  parts_->tls_servers = make_tls_servers(parts_->listening);
  check_options(options);
  parts_->limits = options.limits.named;
  parts_->threads = choose_threads(options);
  warn_of_options(options);
  std::shared_ptr<Store> store;
  parts_->store = options.store;
  parts_->snapshot = options.snapshot;
  try {
    parts_->store_url = StoreUrl(options.store).text();
    store = open_store(options.store, log_store_events(parts_->log));
  } catch (const StoreError& error) {
    throw ConfigError(error.what());
  }
  if (!options.snapshot.file.empty()) {
    parts_->snapshots.emplace(std::dynamic_pointer_cast<MemoryStore>(store), options.snapshot,
                              parts_->log);
  }
  const std::size_t max_connections =
      possible_connections(options, parts_->threads, parts_->listening.size(), parts_->log);
  parts_->context =
      std::make_shared<ServerContext>(std::move(store), options.limits, parts_->threads,
                                      ServerFacts{.store_url = parts_->store_url,
                                                  .max_connections = max_connections,
                                                  .users = options.users,
                                                  .admits_strangers = options.insecure,
                                                  .client_rules = options.client_rules,
                                                  .snapshot_every = snapshot_every(options)});
  parts_->context->set_admin_apart(has_admin(parts_->listening));
  report_slow_decisions(*parts_->context, options.log.slow, parts_->log);
  parts_->streams.emplace(parts_->services_of(parts_->listening, parts_->tls_servers),
                          StreamServerOptions{.threads = parts_->threads,
                                              .max_connections = max_connections,
                                              .max_bytes = options.max_client_bytes});
  parts_->note_certificates();
}

std::string Server::reload(const ServerOptions& options) {
  const auto require_same = [](bool is_same, const std::string& what) {
    if (!is_same) throw ConfigError(what + " cannot be changed while the server runs");
  };
  require_same(options.store == parts_->store, "the store");
  require_same(options.snapshot == parts_->snapshot, "the snapshot");
  std::vector<Listening> listening = read_addresses(options, parts_->passed_sockets);
  refuse_pipes(listening);
  TlsServers tls = make_tls_servers(listening);
  auto limits = options.limits.named;
  auto users = std::make_shared<const Access::Users>(options.users);
  auto rules = std::make_shared<const ClientRules>(options.client_rules);
  std::string changes = limit_changes(parts_->limits, limits);
  const bool changes_users = *users != *parts_->context->access().users().get();
  if (changes_users) {
    changes += "; the users have changed (" + counted(users->size(), "user") + ")";
  }
  // Until the limits are replaced, which is the last that may throw, nothing has changed.
  parts_->streams->replace(parts_->services_of(listening, tls), [&] {
    parts_->context->replace_limits(options.limits);
    if (changes_users) parts_->context->access().users().replace(std::move(users));
    parts_->context->client_rules().replace(std::move(rules));
    parts_->context->set_admin_apart(has_admin(listening));
  });
  parts_->limits = std::move(limits);
  parts_->listening = std::move(listening);
  parts_->tls_servers = std::move(tls);
  parts_->note_certificates();
  parts_->context->slow_decisions().set_threshold(options.log.slow);
  parts_->streams->set_max_bytes(options.max_client_bytes);
  return changes;
}

Server::~Server() = default;

std::string Server::description() const {
  std::string line = "serving ";
  const std::vector<Address> addresses = parts_->streams->addresses();
  const ServedProtocol* before = nullptr;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const ServedProtocol* const protocol = parts_->listening[i].protocol;
    if (protocol == before) {
      line += ", ";
    } else {
      line += (before == nullptr ? "" : "; ") + std::string(protocol->title) + " on ";
    }
    line += addresses[i].text();
    if (!parts_->listening[i].tls.certificate.empty()) line += " with TLS";
    before = protocol;
  }
  line += " (" + counted(parts_->threads, "thread") + ", " +
          counted(parts_->limits.size(), "named limit");
  return line + ", " + parts_->store_url + ")";
}

std::string Server::address(std::size_t i) const {
  return parts_->streams->addresses().at(i).text();
}

void Server::count_reload(bool succeeded) {
  parts_->context->count_reload(succeeded);
}

void Server::warn_of_options(const ServerOptions& options) {
  sluice::warn_of_options(options, parts_->listening, parts_->log);
}

void Server::warn_of_certificates() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto certificates = parts_->context->certificates().get();
  for (const LogEvent& warning : certificate_warnings(
           *certificates, std::chrono::duration_cast<std::chrono::seconds>(now).count())) {
    parts_->log(warning);
  }
}

void Server::start() {
  parts_->streams->start();
  if (parts_->snapshots) {
    parts_->snapshots->start(
        [shared = parts_->context](bool succeeded) { shared->count_snapshot(succeeded); });
  }
}

bool Server::stop(std::chrono::milliseconds grace) {
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + grace;
  parts_->context->begin_drain();
  const auto half = grace / 2;
  parts_->streams->drain(parts_->passed_sockets.empty() ? half : std::min(half, kHandOver));
  const auto rest =
      std::max(std::chrono::ceil<std::chrono::milliseconds>(end - steady_clock::now()), half);
  const auto last_replies = rest / 2;
  parts_->streams->stop(rest - last_replies, last_replies);
  return !parts_->snapshots || parts_->snapshots->stop();
}

bool Server::write_snapshot() {
  if (parts_->snapshots) parts_->snapshots->write_soon();
  return parts_->snapshots.has_value();
}

}  // namespace sluice
