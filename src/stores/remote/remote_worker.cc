#include "stores/remote/remote_worker.h"

#include <semaphore.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cassert>
#include <stdexcept>

#include "core/callback_threads.h"
#include "core/limit_syntax.h"
#include "core/without_signals.h"

namespace sluice {
namespace {

/// When no thread has led for this long, the worker thread takes the lead, to look after idle
/// connections.
constexpr std::chrono::milliseconds kIdle{100};

/// How many events a late thread handles before it fails requests: more than can have arrived.
/// There may always be another one.
constexpr int kMostArrived = 1'000;

constexpr std::chrono::milliseconds kMostForHandshake{5'000};

bool is_unavailable(const Decision& decision) {
  return decision.source == Source::kUnavailable;
}

// The worker that this thread leads now, or whose worker thread it is.
thread_local const RemoteWorker* leads_now = nullptr;

}  // namespace

PendingBatch::PendingBatch(std::unique_ptr<Batch> taken)
    : batch(std::move(taken)),
      unanswered(
          static_cast<std::size_t>(std::ranges::count_if(batch->decisions(), is_unavailable))) {
  requests.resize(unanswered);
  auto* next = requests.data();
  for (std::size_t i = 0; i < batch->decisions().size(); ++i) {
    if (!is_unavailable(batch->decisions()[i])) continue;
    next->requests = batch->requests_of(i);
    next->decision = &batch->decisions()[i];
    next->now = batch->now();
    next->batch = this;
    ++next;
  }
}

/// A caller that waits in submit_and_wait(); lives on the caller's stack.
class WaitingCaller {
 public:
  WaitingCaller() { ::sem_init(&answered_, 0, 0); }
  ~WaitingCaller() { ::sem_destroy(&answered_); }
  WaitingCaller(const WaitingCaller&) = delete;
  WaitingCaller& operator=(const WaitingCaller&) = delete;

  /// By the thread that leads.
  void wake() {
    is_answered_ = true;
    ::sem_post(&answered_);  // Last: the caller returns, and this is gone.
  }
  /// Called by the thread that leads.
  bool is_answered() const { return is_answered_; }
  void wait() {
    while (::sem_wait(&answered_) != 0) {
      // A signal interrupted the wait.
    }
  }

 private:
  bool is_answered_ = false;
  // Of the kinds that C++ offers, a condition variable wakes threads at a higher cost ("64 threads,
  // one by one" in docs/benchmarks.md), and std::binary_semaphore may not be destroyed when woken.
  sem_t answered_;
};

void RemoteWorker::start(Router& router) {
  assert(router_ == nullptr);
  router_ = &router;
  const WithoutSignals without_signals;
  thread_ = std::thread([this] { run(); });
}

std::string RemoteWorker::closed_error() const {
  return options_.name + " was closed before it answered";
}

void RemoteWorker::stop() {
  if (thread_.joinable()) {
    post([this] { ended_ = true; });
    thread_.join();
  }
  while (!under_way_.empty()) close(under_way_.front());
  while (!late_.empty()) close(late_.front());
  // The router has not seen these.
  from_leader_.splice(from_leader_.end(), inbox_);
  while (!from_leader_.empty()) {
    const std::unique_ptr<PendingBatch> pending(&from_leader_.front());
    from_leader_.pop_front();
    pending->batch->set_error(closed_error());
    Batch::complete(std::move(pending->batch));
  }
}

/// Counts the batch as pending. If too many requests are pending, completes it at once and returns
/// null.
std::unique_ptr<PendingBatch> RemoteWorker::admit(std::unique_ptr<Batch> batch) {
  auto pending = std::make_unique<PendingBatch>(std::move(batch));
  const auto count = static_cast<std::int64_t>(pending->requests.size());
  if (pending_.fetch_add(count, std::memory_order_relaxed) + count <= kMaxPending && !ended_) {
    return pending;
  }
  pending_.fetch_sub(count, std::memory_order_relaxed);
  pending->batch->set_error(ended_ ? closed_error()
                                   : "more than " + std::to_string(kMaxPending) +
                                         " requests wait for " + options_.name);
  Batch::complete(std::move(pending->batch));
  return nullptr;
}

PipelineOptions RemoteWorker::pipeline_options(const Endpoint& endpoint) const {
  PipelineOptions options{.endpoint = endpoint};
  options.patience = std::chrono::ceil<std::chrono::milliseconds>(2 * options_.deadline);
  options.silence_timeout = std::max(options.silence_timeout, options.patience);
  options.handshake_timeout =
      std::clamp(options.patience, options.handshake_timeout, kMostForHandshake);
  return options;
}

std::string RemoteWorker::late_error(std::string_view server) const {
  return std::string(server) + " did not answer within " +
         format_duration(options_.deadline.count());
}

void RemoteWorker::submit(std::unique_ptr<Batch> batch) {
  std::unique_ptr<PendingBatch> pending = admit(std::move(batch));
  if (pending == nullptr) return;
  if (leads_now == this) {
    from_leader_.push_back(*pending.release());
    return;
  }
  const std::lock_guard lock(mutex_);
  inbox_.push_back(*pending.release());
  call_leader(true);
}

void RemoteWorker::submit_and_wait(std::unique_ptr<Batch> batch) {
  if (leads_now == this) {
    throw std::logic_error("a callback cannot wait for the store: it runs on the store's thread");
  }
  std::unique_ptr<PendingBatch> pending = admit(std::move(batch));
  if (pending == nullptr) return;
  WaitingCaller waiter;
  pending->waiter = &waiter;
  bool leads = false;
  {
    const std::lock_guard lock(mutex_);
    leads = lead_ == Lead::kFree;
    if (leads) {
      lead_ = Lead::kCaller;
      ++leads_;
      from_leader_.push_back(*pending.release());
    } else {
      inbox_.push_back(*pending.release());
      call_leader(false);
    }
  }
  if (leads) lead_until_answered(waiter);
  waiter.wait();
}

void RemoteWorker::post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  call_leader(true);
}

/// Tells the leading thread that inbox_ or tasks_ has something new; if no thread leads, the worker
/// thread takes the lead. REQUIRES: mutex_ is held.
void RemoteWorker::call_leader(bool is_for_worker) {
  is_for_worker_ = is_for_worker_ || is_for_worker;
  if (lead_ == Lead::kFree) return give_lead();
  if (!std::exchange(called_, true)) context_.post([this] { collect(); });
}

/// REQUIRES: mutex_ is held.
void RemoteWorker::give_lead() {
  lead_ = Lead::kWorker;
  lead_given_.notify_one();
}

void RemoteWorker::lead_until_answered(WaitingCaller& waiter) {
  const RemoteWorker* const before = std::exchange(leads_now, this);
  leave_ = false;
  step();
  // If it failed at once, no event has been handled: handle one that is ready, such as a timer or
  // the end of an idle connection. The worker thread does not while callers lead again and again.
  if (waiter.is_answered()) context_.asio()->poll_one();
  while (!waiter.is_answered() && !leave_) step();
  leads_now = before;
  const std::lock_guard lock(mutex_);
  if (is_free()) {
    lead_ = Lead::kFree;
  } else {
    give_lead();
  }
}

void RemoteWorker::run() {
  runs_callbacks = true;
  leads_now = this;
  serve();
  std::unique_lock lock(mutex_);
  while (!ended_) {
    const std::uint64_t leads = leads_;
    const auto is_given = [this] { return lead_ == Lead::kWorker; };
    if (!lead_given_.wait_for(lock, kIdle, is_given)) {
      if (lead_ != Lead::kFree || leads != leads_) continue;
      lead_ = Lead::kWorker;
    }
    lock.unlock();
    serve();
    lock.lock();
  }
}

/// Leads until it has begun a batch and nothing is pending.
void RemoteWorker::serve() {
  served_ = false;
  collect();
  while (!ended_) {
    if (served_ && under_way_.empty()) {
      const std::lock_guard lock(mutex_);
      if (is_free()) {
        lead_ = Lead::kFree;
        return;
      }
    }
    step();
  }
}

/// Whether no thread needs to lead. REQUIRES: mutex_ is held, by the thread that leads.
bool RemoteWorker::is_free() const {
  return under_way_.empty() && from_leader_.empty() && !context_.has_work() && inbox_.empty() &&
         tasks_.empty();
}

/// Takes the batches and tasks that other threads have added.
void RemoteWorker::collect() {
  List<PendingBatch> arrived;
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    called_ = false;
    leave_ = is_for_worker_ && lead_ == Lead::kCaller;
    if (leave_) return;
    is_for_worker_ = false;
    arrived.swap(inbox_);
    tasks.swap(tasks_);
  }
  begin(arrived);
  for (const auto& task : tasks) task();
}

void RemoteWorker::begin(List<PendingBatch>& arrived) {
  if (arrived.empty()) return;
  served_ = true;
  const Clock::time_point deadline = Clock::now() + options_.deadline;
  while (!arrived.empty()) {
    PendingBatch& batch = arrived.front();
    arrived.pop_front();
    batch.deadline = deadline;
    under_way_.push_back(batch);
    // A request may be answered within route(), and the batch end with the last one.
    ++batch.unanswered;
    for (PendingRequest& request : batch.requests) router_->route(request);
    if (--batch.unanswered == 0) finish(batch);
  }
  router_->flush();
}

/// Begins the batches that the leading thread has submitted. If there are none, waits for one
/// event, or until the earliest deadline.
void RemoteWorker::step() {
  if (!from_leader_.empty()) {
    List<PendingBatch> arrived;
    arrived.swap(from_leader_);
    begin(arrived);
    if (from_leader_.empty()) return;
    // Completions have submitted more, since requests fail or are answered at once. That may go on
    // for ever, so events and deadlines have their turn between any two such batches.
    context_.asio()->poll_one();
    if (!under_way_.empty() && under_way_.front().deadline <= Clock::now()) expire_late();
    return;
  }
  if (under_way_.empty()) {
    context_.asio()->run_one();
    return;
  }
  if (context_.asio()->run_one_until(under_way_.front().deadline) == 0) expire_late();
}

/// Fails requests that are late.
void RemoteWorker::expire_late() {
  const bool is_late_here = Clock::now() > under_way_.front().deadline + StoreMonitor::kLate;
  // Replies that have arrived count, even if this thread reads them late: the store was in time.
  // The time is that before the last look: this thread may lose the processor after it.
  int events = 0;
  Clock::time_point now = Clock::now();
  for (; events < kMostArrived && context_.asio()->poll_one() != 0; ++events) now = Clock::now();
  if (events < kMostArrived) monitor_.on_all_read(now);
  while (!under_way_.empty() && under_way_.front().deadline <= now) {
    expire(under_way_.front(), now, is_late_here);
  }
}

/// Fails those requests of a batch whose time is up, and lets the others wait on. The router may
/// keep some of them for their replies.
void RemoteWorker::expire(PendingBatch& batch, Clock::time_point now, bool is_late_here) {
  batch.deadline = Clock::time_point::max();
  ++batch.unanswered;  // As in begin(): the batch must not end before the loop does.
  for (PendingRequest& request : batch.requests) {
    if (request.batch == nullptr || request.is_late) continue;
    const auto sent_at = router_->sent_at(request);
    // What is due within kLate is failed along with what is due now.
    if (sent_at && *sent_at + options_.deadline > now + StoreMonitor::kLate) {
      batch.deadline = std::min(batch.deadline, *sent_at + options_.deadline);
      continue;
    }
    request.is_late_here = is_late_here;
    const std::string why = router_->expire(request);
    if (!request.is_late) {
      monitor_.count_late(is_late_here);
      end_unanswered(request, why);
      continue;
    }
    set_unavailable(request, kTakenLater, why);
    ++batch.late;
    --batch.unanswered;
  }
  if (--batch.unanswered == 0) return finish(batch);
  batch.unlink();
  const auto after = std::ranges::find_if(
      under_way_, [&](const PendingBatch& other) { return other.deadline > batch.deadline; });
  under_way_.insert(after, batch);
}

/// Fails the requests of the batch that have no answer.
void RemoteWorker::close(PendingBatch& batch) {
  ++batch.unanswered;  // As in begin().
  for (PendingRequest& request : batch.requests) {
    if (request.batch == nullptr) continue;
    router_->abandon(request);
    fail(request, closed_error());
  }
  --batch.unanswered;
  finish(batch);
}

void RemoteWorker::complete(PendingRequest& request, Clock::time_point arrived) {
  if (request.batch->is_answered) {
    monitor_.count_late(request.is_late_here);
  } else {
    monitor_.count_answer();
  }
  Batch& asked = *request.batch->batch;
  asked.on_reply(static_cast<std::size_t>(request.decision - asked.decisions().data()), arrived);
  end(request);
}

void RemoteWorker::end(PendingRequest& request) {
  PendingBatch& batch = *std::exchange(request.batch, nullptr);
  --(request.is_late ? batch.late : batch.unanswered);
  if (batch.unanswered == 0 && (!request.is_late || batch.late == 0)) finish(batch);
}

void RemoteWorker::set_unavailable(PendingRequest& request, std::int64_t taken,
                                   std::string_view why) {
  *request.decision = {.source = Source::kUnavailable, .taken = taken};
  request.batch->batch->set_error(why);
}

void RemoteWorker::fail(PendingRequest& request, std::string_view why) {
  if (request.is_late) monitor_.count_late(request.is_late_here);
  end_unanswered(request, why);
}

void RemoteWorker::end_unanswered(PendingRequest& request, std::string_view why) {
  set_unavailable(request, request.may_be_executed ? kTakenUnknown : 0, why);
  end(request);
}

void RemoteWorker::refuse(PendingRequest& request, const std::string& refusal,
                          const std::string& key) {
  monitor_.on_refused(refusal);
  end_unanswered(request, refusal + key);
}

/// Completes the batch. What is late then waits for its replies.
void RemoteWorker::finish(PendingBatch& batch) {
  // Without an outer store, late replies have no receiver, and the keys of their requests may be
  // destroyed once the caller has been answered. (The error goes on saying that they are late.)
  if (batch.late != 0 && batch.batch->outer.store == nullptr) return close(batch);
  std::unique_ptr<PendingBatch> ended(&batch);
  batch.unlink();
  if (!std::exchange(batch.is_answered, true)) {
    pending_.fetch_sub(static_cast<std::int64_t>(batch.requests.size()), std::memory_order_relaxed);
  }
  // A late reply may have come after all.
  Batch& asked = *batch.batch;
  if (!asked.error().empty() && std::ranges::none_of(asked.decisions(), is_unavailable)) {
    asked.clear_error();
  }
  WaitingCaller* const waiter = std::exchange(batch.waiter, nullptr);
  batch.batch = Batch::complete(std::move(batch.batch));
  if (batch.late != 0) late_.push_back(*ended.release());
  if (waiter != nullptr) waiter->wake();
}

}  // namespace sluice
