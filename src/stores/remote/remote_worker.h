#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/batch.h"
#include "net/io_context.h"
#include "net/request_pipeline.h"
#include "stores/remote/pending_request.h"
#include "stores/remote/store_monitor.h"

namespace sluice {

/// Sends requests to servers. The RemoteWorker calls all members on the thread that leads it; they
/// throw nothing.
class Router {
 public:
  virtual ~Router() = default;

  /// Takes a request, which the router keeps until it calls RemoteWorker::complete(), fail() or
  /// refuse() with it, or until abandon() is called with it.
  virtual void route(PendingRequest& request) = 0;

  /// Called after route() was called for all requests that arrived together: send them.
  virtual void flush() = 0;

  /// Of a batch that takes several calls: when the call that carries the request was sent, or the
  /// oldest of those that are sent before it. Nothing for other batches, and if the request waits
  /// for something else, or is sent again: it is late then.
  virtual std::optional<std::chrono::steady_clock::time_point> sent_at(
      const PendingRequest& /*request*/) {
    return std::nullopt;
  }
  /// The request's deadline has passed: the router forgets it, as abandon() does, unless a reply
  /// that tells of its key is under way. Then it sets is_late, and keeps the request as route()
  /// says. Returns one sentence that says why there is no answer: RemoteWorker::late_error().
  virtual std::string expire(PendingRequest& request) = 0;
  /// The router forgets the request, and notes whether it may have been executed. Its keys, its
  /// spaces and its decision may be destroyed after this call.
  virtual void abandon(PendingRequest& request) = 0;
};

/// Takes batches from any thread, gives their requests to a router, and completes each request
/// within the deadline; one that has no decision by then is kUnavailable. The deadline counts from
/// when the router was given the request. A reply that has arrived by the deadline counts, even if
/// this process reads it later.
///
/// A request that was sent and is late is failed (kTakenLater), so that its caller gets an answer,
/// but its reply is still received, for the outer store. The batch that is kept for it is bounded
/// by what routers send before they have a reply. Each request has at most one count in the
/// StoreHealth: answered, refused or late. That of one whose reply is still received is made with
/// the reply, which may be a refusal.
///
/// A batch may take several calls: if it has more requests than one call holds, or keys on several
/// nodes of a cluster. The deadline of each request then counts from when its call was sent, so
/// that none is late because of those before it.
///
/// The connections need a thread that runs their io_context. One thread at a time does so: it
/// "leads". The worker thread leads for the batches of submit(), and while connections are being
/// made. It gives the lead up when nothing is pending. It takes it again when no thread has led for
/// 100 ms, to look after idle connections, and then keeps it until it has served a batch. If a
/// thread calls submit_and_wait() while no thread leads, it takes the lead and carries out the same
/// steps itself; this saves two switches between threads. When its own batch has been answered and
/// something else is pending, it passes the lead to the worker thread.
///
/// Completions of submit() run on the worker thread only, since they may need locks that a leading
/// caller holds: a leading caller that finds such a batch or a task passes the lead on. It
/// completes only batches of submit_and_wait(), whose completions take no such lock, and what these
/// completions submit.
class RemoteWorker final {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::chrono::nanoseconds deadline;
    /// The subject of sentences: "the store on redis 127.0.0.1:6379".
    std::string name = "the store";
  };
  /// The most requests that may be pending. Further ones are kUnavailable at once.
  static constexpr std::int64_t kMaxPending = 100'000;

  explicit RemoteWorker(Options options)
      : options_(std::move(options)), monitor_(options_.deadline) {}
  ~RemoteWorker() { stop(); }
  RemoteWorker(const RemoteWorker&) = delete;
  RemoteWorker& operator=(const RemoteWorker&) = delete;

  /// Starts the worker thread. `router` outlives stop(). REQUIRES: called once. Throws
  /// std::system_error where the system gives no thread.
  void start(Router& router);

  /// Ends the worker thread, and completes all pending requests as kUnavailable. After it, no task
  /// of the context runs. REQUIRES: no other thread uses this object any more.
  void stop();

  IoContext& context() { return context_; }
  StoreMonitor& monitor() { return monitor_; }
  const StoreMonitor& monitor() const { return monitor_; }
  /// For the router: how to connect to a server. It is silent after twice the deadline; then, but
  /// not sooner than by default, the connection is given up. An unanswered handshake is given up
  /// after the same time, 5 s at most.
  PipelineOptions pipeline_options(const Endpoint& endpoint) const;
  /// For the router: "`server` did not answer within 10ms".
  std::string late_error(std::string_view server) const;

  /// Takes the batch over, and completes it within the deadline. The completion runs on the worker
  /// thread; if too many requests are pending, it runs within this call. Thread-safe. If a
  /// completion calls this, it takes no lock and wakes no thread, and the batch's own completion
  /// runs on the thread that leads by then.
  void submit(std::unique_ptr<Batch> batch);

  /// The same, but returns when the completion has run. The calling thread may lead meanwhile.
  /// Throws std::logic_error on the worker thread, which would wait for itself.
  void submit_and_wait(std::unique_ptr<Batch> batch);

  /// Runs `task` soon on the worker thread. Thread-safe.
  void post(std::function<void()> task);

  /// Called by the router, on the leading thread, when it has written the request's decision, of
  /// each key in the order in which its server has decided: tells the outer store. After the last
  /// request of a batch, the batch's completion is called. `arrived`: see Batch::OuterStore.
  void complete(PendingRequest& request, Clock::time_point arrived);
  /// The same, if there will be no decision: it becomes kUnavailable, and the request says whether
  /// it may have been executed. `why` is a sentence.
  void fail(PendingRequest& request, std::string_view why);
  /// The same, if a server has refused the request. `refusal` names the server and quotes it, and
  /// does not name the key, as `key` may: " (key 'a')".
  void refuse(PendingRequest& request, const std::string& refusal, const std::string& key = {});

 private:
  enum class Lead : std::uint8_t { kFree, kCaller, kWorker };

  std::string closed_error() const;
  std::unique_ptr<PendingBatch> admit(std::unique_ptr<Batch> batch);
  void call_leader(bool is_for_worker);
  void give_lead();
  void lead_until_answered(WaitingCaller& waiter);
  void run();
  void serve();
  bool is_free() const;
  void collect();
  void begin(List<PendingBatch>& arrived);
  void step();
  void end_unanswered(PendingRequest& request, std::string_view why);
  void end(PendingRequest& request);
  static void set_unavailable(PendingRequest& request, std::int64_t taken, std::string_view why);
  void expire_late();
  void expire(PendingBatch& batch, Clock::time_point now, bool is_late_here);
  void close(PendingBatch& batch);
  void finish(PendingBatch& batch);

  Router* router_ = nullptr;  // Set by start().
  const Options options_;
  StoreMonitor monitor_;
  IoContext context_;
  std::thread thread_;
  std::atomic<std::int64_t> pending_{0};

  // Used by the leading thread only:
  List<PendingBatch> under_way_;    // By deadline, the earliest first.
  List<PendingBatch> from_leader_;  // Submitted by the leading thread: its own, or by completions.
  List<PendingBatch> late_;         // Whose callers have been answered.
  bool leave_ = false;              // The leading caller must pass the lead on.
  bool served_ = false;             // The worker thread has begun a batch since it took the lead.
  // stop() was called. Other threads read it too, but none uses this object during stop().
  bool ended_ = false;

  std::mutex mutex_;
  std::condition_variable lead_given_;  // Wakes the worker thread: lead_ is kWorker.
  // Guarded by mutex_:
  Lead lead_ = Lead::kWorker;
  std::uint64_t leads_ = 0;  // How often a caller has led.
  bool called_ = false;      // A task that calls collect() is posted to the leading thread.
  List<PendingBatch> inbox_;
  std::vector<std::function<void()>> tasks_;
  bool is_for_worker_ = false;  // inbox_ or tasks_ has something that only the worker may run.
};

}  // namespace sluice
