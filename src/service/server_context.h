#pragma once

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/store.h"
#include "service/access.h"
#include "service/current.h"
#include "service/decision_batch.h"
#include "service/limit_registry.h"
#include "service/named_limits.h"
#include "service/outcome_counters.h"
#include "service/protocol_counters.h"
#include "service/served_limits.h"
#include "service/slow_decisions.h"
#include "sluice/http_headers.h"
#include "sluice/keys.h"
#include "sluice/limit.h"

namespace sluice {

using CurrentLimits = Current<NamedLimits>;

/// How to read requests that proxies pass on, and how to tell HTTP clients about their limits.
struct ClientRules {
  /// Finds the client of a request that a trusted proxy passes on.
  ClientIp client_ip{{.trusted_proxies = {"127.0.0.0/8", "::1", "unix:"}}};
  /// The style for requests that do not choose one.
  HeaderStyle header_style = HeaderStyle::kIetf11;
};

/// What the connections of one serving thread share, in all protocols. Used by that thread only,
/// except that any thread may read `counters`.
class ThreadContext {
 public:
  /// `current` and `slow` outlive this.
  ThreadContext(const std::shared_ptr<Store>& store, const CurrentLimits& current,
                SlowDecisions& slow);

  /// Begins an empty batch with the present limits, which apply to the whole batch.
  void begin_batch() {
    batch.clear();
    if (current_.version() == version_) return;
    // Read first: if the limits are replaced meanwhile, the next call takes them.
    version_ = current_.version();
    limits.replace(current_.get());
  }

  // A batch refers to limits that the registry remembers, and adds one for each request at most.
  static_assert(LimitRegistry::kMaxRemembered / 2 >= DecisionBatch::kMaxRequests);

  LimitRegistry limits;
  OutcomeCounters counters;
  DecisionBatch batch;

 private:
  const CurrentLimits& current_;
  std::uint64_t version_ = 0;
};

/// What a server was started with, as far as clients may see it.
struct ServerFacts {
  /// Without a password.
  std::string store_url = {};
  std::size_t max_connections = 0;
  std::vector<User> users = {};
  /// Whether, without users, clients of other machines without a certificate may ask, too.
  bool admits_strangers = true;
  ClientRules client_rules = {};
  /// How often a snapshot of the store is written; 0 if none is.
  std::chrono::nanoseconds snapshot_every{0};
};

/// A limit, and how many requests for units or permits it has allowed and denied.
struct LimitCount {
  std::string name;
  /// Empty in the row that counts all limits without a name.
  std::string expression;
  /// Includes the requests that a limit in a dry run would have denied.
  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::uint64_t would_deny = 0;

  friend bool operator==(const LimitCount&, const LimitCount&) = default;
};

/// The certificate that the server shows at one of its addresses.
struct ServedCertificate {
  /// The protocol of the address, as in metrics: "resp".
  std::string protocol;
  /// The address: "0.0.0.0:6380".
  std::string listener;
  /// When it ends, or the first of its chain to end, in seconds since the Unix epoch.
  std::int64_t not_after_s = 0;
};

/// What all serving threads share: the store, and a context for each thread.
class ServerContext {
 public:
  /// What outcomes() calls all limits that are not named. No limit can have this name.
  static constexpr std::string_view kOtherLimits = "(other)";

  /// Throws StoreError if a limit cannot be added. REQUIRES: threads >= 1, and as NamedLimits.
  ServerContext(std::shared_ptr<Store> store, const ServedLimits& served, std::size_t threads,
                ServerFacts facts = {});

  /// Replaces the limits that requests may name: each thread takes them with its next batch. States
  /// and counts of limits of the same name go on. Throws StoreError if a limit cannot be added; the
  /// former limits then stay. REQUIRES: as NamedLimits. Called by one thread at a time.
  void replace_limits(const ServedLimits& served);

  /// The certificates of all addresses with TLS.
  Current<std::vector<ServedCertificate>>& certificates() { return certificates_; }
  const Current<std::vector<ServedCertificate>>& certificates() const { return certificates_; }

  /// The present rules: at first those of ServerFacts.
  Current<ClientRules>& client_rules() { return client_rules_; }

  Store& store() const { return *store_; }
  std::size_t threads() const { return threads_.size(); }
  const ServerFacts& facts() const { return facts_; }
  Access& access() { return access_; }
  const Access& access() const { return access_; }
  /// Whether the paths for operators have addresses of their own, and are served only there.
  /// Thread-safe.
  bool admin_is_apart() const { return admin_is_apart_.load(std::memory_order_relaxed); }
  void set_admin_apart(bool is_apart) {
    admin_is_apart_.store(is_apart, std::memory_order_relaxed);
  }
  /// From now on clients are told that the server is about to stop. Thread-safe.
  void begin_drain() { is_draining_.store(true, std::memory_order_relaxed); }
  bool is_draining() const { return is_draining_.load(std::memory_order_relaxed); }
  /// When this object was made, by the store's clock.
  Instant started_at() const { return started_at_; }
  /// The same by the wall clock, which clients of metrics have, too.
  Instant started_at_wall() const { return started_at_wall_; }
  /// For the thread numbered `index` alone. REQUIRES: index < threads().
  ThreadContext& thread(std::size_t index) {
    assert(index < threads_.size());
    return *threads_[index];
  }

  /// How many decisions were written as replies since the start: first those of the named limits,
  /// in their order, then those of all other limits. Outcomes that have not occurred are left out.
  /// Only requests that take units are counted, not peeks, refunds and resets. Thread-safe.
  std::vector<OutcomeCount> outcomes() const;

  /// The named limits in their order, and then all others together, counted as outcomes() does: a
  /// limit that has found no number (LimitHistory) is counted among the others, and its own row has
  /// no counts. Thread-safe.
  std::vector<LimitCount> limits() const;

  /// The keys that a named limit, or all others together (kOtherLimits), has denied most, at most
  /// `most`, the one denied most first. Throws UnknownLimit. Thread-safe.
  std::vector<KeyCount> top(std::string_view limit, std::size_t most) const;
  static constexpr std::size_t kMaxTop = TopKeys::kMostCounters;
  static constexpr std::size_t kUsualTop = 20;

  /// How often something was tried, and how it ended. Thread-safe.
  struct Attempts {
    std::atomic<std::uint64_t> succeeded = 0;
    std::atomic<std::uint64_t> failed = 0;
    /// Whether the last one succeeded; true before the first.
    std::atomic<bool> last_succeeded = true;
    /// By the wall clock.
    std::atomic<Instant> last_success = 0;

    void count(bool success) {
      if (success) last_success = wall_now();  // First: metrics with the success have its time.
      last_succeeded = success;
      ++(success ? succeeded : failed);
    }
  };
  /// How often the server has read its files again, and how often it did not take them because of a
  /// mistake. Before the first success, last_success is when the server was started.
  const Attempts& reloads() const { return reloads_; }
  void count_reload(bool succeeded) { reloads_.count(succeeded); }
  /// How often the server has written a snapshot of the store, and how often that failed. Before
  /// the first success, last_success is 0.
  const Attempts& snapshots() const { return snapshots_; }
  void count_snapshot(bool succeeded) { snapshots_.count(succeeded); }

  /// How long decisions took, over all threads. Thread-safe.
  DurationCounts durations() const;

  /// Is told about each batch.
  SlowDecisions& slow_decisions() { return slow_; }

  /// The counters of this protocol's connections. Valid as long as this object. Thread-safe.
  ProtocolCounters& protocol(std::string_view name);
  /// The counters of all protocols for which protocol() was called. Thread-safe.
  std::vector<std::pair<std::string, const ProtocolCounters*>> protocols() const;

 private:
  std::string name_of(std::uint16_t limit) const;
  std::uint64_t count(std::size_t limit, Outcome outcome, Source source) const;

  const std::shared_ptr<Store> store_;
  const ServerFacts facts_;
  Access access_;
  const Instant started_at_;
  const Instant started_at_wall_ = wall_now();
  std::atomic<bool> admin_is_apart_ = false;
  std::atomic<bool> is_draining_ = false;
  LimitHistory history_;
  ServedLimits served_;  // From which named_ was made.
  CurrentLimits named_;
  Current<ClientRules> client_rules_;
  Current<std::vector<ServedCertificate>> certificates_{
      std::make_shared<const std::vector<ServedCertificate>>()};
  SlowDecisions slow_;
  std::vector<std::unique_ptr<ThreadContext>> threads_;
  Attempts reloads_;
  Attempts snapshots_;
  mutable std::mutex mutex_;
  std::map<std::string, ProtocolCounters, std::less<>> protocols_;  // guarded by mutex_
};

}  // namespace sluice
