#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "core/batch.h"
#include "net/io_context.h"
#include "stores/remote/pending_request.h"

namespace sluice {

/// Who sends requests to servers. All are called on the thread that leads the RemoteWorker, and
/// throw nothing.
class Router {
 public:
  virtual ~Router() = default;

  /// Takes a request over until RemoteWorker::complete() or fail() is called for it, or abandon()
  /// with it.
  virtual void route(PendingRequest& request) = 0;

  /// All that came at once was routed: send it.
  virtual void flush() = 0;

  /// The request's time is up: forget it, wherever it is. Its keys, its spaces and its decision may
  /// be gone after this call. Returns why it has no answer, a sentence: "x did not answer". Valid
  /// until the router is called again.
  virtual std::string_view abandon(PendingRequest& request) = 0;
};

/// Gives batches from any thread to a router, and completes each within the deadline: what has no
/// decision by then is kUnavailable.
///
/// One thread at a time leads: it runs the io_context with the connections. That is the worker
/// thread, except where a caller who waits for its answer finds that no thread leads: it then does
/// the very same steps itself, which saves two changes of thread, and passes the lead to the worker
/// thread if something is pending when it is answered. A leading caller completes no batch but
/// those whose callers wait as it does: it may hold locks that other completions want.
class RemoteWorker final {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::chrono::nanoseconds deadline;
    /// While so many requests are pending, others are not taken: they are kUnavailable at once.
    std::int64_t max_pending = 100'000;
  };

  /// `router` outlives stop().
  RemoteWorker(Router& router, const Options& options) : router_(router), options_(options) {}
  ~RemoteWorker() { stop(); }
  RemoteWorker(const RemoteWorker&) = delete;
  RemoteWorker& operator=(const RemoteWorker&) = delete;

  /// Starts the worker thread, which runs `first` before anything else. REQUIRES: called once.
  /// Throws std::system_error where the system gives no thread.
  void start(std::function<void()> first);

  /// Ends the worker thread, and completes what is pending: kUnavailable. Nothing runs any more
  /// that the context would run. REQUIRES: no other thread uses this any more.
  void stop();

  IoContext& context() { return context_; }
  /// For the router: when it was given the last requests.
  Clock::time_point routed_at() const { return routed_at_; }

  /// From any thread: takes the batch, and answers it within the deadline. Its completion runs on
  /// the worker thread, or within this call where too much is pending. Within a completion, this
  /// takes no lock and wakes no thread.
  void submit(std::unique_ptr<Batch> batch);

  /// Asks, and waits for the answers: requests[i] is answered in decisions[i], or all of them in
  /// decisions[0] where they are asked together. From any thread but the worker thread. Throws
  /// StoreError where a decision is kUnavailable.
  void decide(std::span<const Request> requests, Batch::Mode mode, Instant now,
              std::span<Decision> decisions);

  /// From any thread: runs `task` on the worker thread, soon.
  void post(std::function<void()> task);

  /// On the leading thread: the request's decision is made. Where it is the last of its batch, the
  /// batch's completion is called.
  void complete(PendingRequest& request);
  /// On the leading thread: there will be none.
  void fail(PendingRequest& request, std::string_view why);

 private:
  enum class Lead : std::uint8_t { kFree, kCaller, kWorker };

  class Waiter;

  std::unique_ptr<PendingBatch> admit(std::unique_ptr<Batch> batch);
  void call_leader(bool is_for_worker);
  void give_lead();
  void lead_until_answered(Waiter& waiter);
  void run(const std::function<void()>& first);
  void serve();
  bool is_free() const;
  void collect();
  void begin(List<PendingBatch>& arrived);
  void step();
  void expire(PendingBatch& batch, std::string_view why = {});
  void finish(PendingBatch& batch);

  Router& router_;
  const Options options_;
  IoContext context_;
  std::thread thread_;
  std::atomic<std::int64_t> pending_{0};

  // Of the thread that leads:
  List<PendingBatch> under_way_;     // By deadline, the earliest first.
  List<PendingBatch> arrived_here_;  // Submitted by completions.
  Clock::time_point routed_at_;
  bool leave_ = false;   // The caller who leads is to pass the lead on.
  bool served_ = false;  // The worker thread has begun a batch since it leads.
  bool ended_ = false;

  std::mutex mutex_;
  std::condition_variable lead_given_;  // To the worker thread.
  // Guarded by mutex_:
  Lead lead_ = Lead::kWorker;
  std::uint64_t leads_ = 0;  // How often a caller has led.
  bool called_ = false;      // The thread that leads will collect() soon.
  List<PendingBatch> inbox_;
  std::vector<std::function<void()>> tasks_;
  bool is_for_worker_ = false;  // Something of these is not to be done by a caller.
};

}  // namespace sluice
