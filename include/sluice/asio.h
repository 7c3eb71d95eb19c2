#pragma once

/// Asynchronous operations for programs that use Boost.Asio (1.81 or later). They take a completion
/// token: a callback, use_future, use_awaitable and so on:
///
///     sluice::Decision decision = co_await sluice::async_acquire(
///         limiter, "example.org", 1, 30s, boost::asio::use_awaitable);
///
/// Each operation does what the blocking function of its name does, on the Limiter,
/// ConcurrencyLimiter or Reservation that is its first argument, and has the same result. This
/// object must stay in place until the operation has started, which for coroutines is at the
/// co_await. Keys are copied. Only async_acquire() and async_wait() can be cancelled.
///
/// A handler runs on its associated executor (if it has none, on a thread of Asio's
/// system_executor), and never within the call that starts the operation; on another thread of the
/// executor it may run before that call returns. Until it runs, the executor has outstanding work.
/// The handler receives the exceptions of the blocking function as std::exception_ptr; co_await and
/// futures throw them.
///
/// If the execution context (an io_context, a thread_pool) is destroyed first, the handler is
/// destroyed without a call, as those of Asio's own operations are: async_acquire() is cancelled
/// then; other operations still do what they were called for. If the executor of a handler does not
/// tell its context (that of an any_completion_handler does not), the context must outlive the
/// operation.
///
/// sluice.h does not include this header, since it needs only the standard library.

#include <algorithm>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution/executor.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/system_executor.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/permit.h"
#include "sluice/reservation.h"

namespace sluice {
namespace internal {

class PendingOperation {
 public:
  virtual ~PendingOperation() = default;

  /// Destroys the handler without a call, and all else that belongs to the execution context.
  virtual void abandon() = 0;
};

/// The pending operations of an execution context. They complete on threads of the library, which
/// must not use the context when it is destroyed. Thread-safe.
class PendingOperations {
 public:
  void add(const std::shared_ptr<PendingOperation>& operation) {
    const std::lock_guard lock(mutex_);
    pending_.emplace(operation.get(), operation);
  }

  /// Returns false if the operation is abandoned, or was removed before.
  bool remove(const PendingOperation& operation) {
    const std::lock_guard lock(mutex_);
    return pending_.erase(&operation) > 0;
  }

  /// Removes the operation, as remove() does. The context stays until this thread has called
  /// end_completion(), unless this thread destroys it before, with an executor that holds the last
  /// share of it.
  bool begin_completion(const PendingOperation& operation) {
    const std::lock_guard lock(mutex_);
    if (pending_.erase(&operation) == 0) return false;
    completing_.push_back(std::this_thread::get_id());
    return true;
  }
  void end_completion() {
    const std::lock_guard lock(mutex_);
    completing_.erase(std::ranges::find(completing_, std::this_thread::get_id()));
    all_others_completed_.notify_all();
  }

  /// Called when the context is destroyed.
  void abandon_all() {
    std::unique_lock lock(mutex_);
    // From here on no thread of the library has the last share of one of them.
    std::vector<std::shared_ptr<PendingOperation>> abandoned;
    for (const auto& [address, operation] : pending_) {
      if (auto held = operation.lock()) abandoned.push_back(std::move(held));
    }
    pending_.clear();
    const auto is_own = [own = std::this_thread::get_id()](auto thread) { return thread == own; };
    all_others_completed_.wait(lock, [&] { return std::ranges::all_of(completing_, is_own); });
    lock.unlock();  // A destroyed handler may release permits, and so complete other operations.
    for (const auto& operation : abandoned) operation->abandon();
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_others_completed_;
  // Guarded by mutex_:
  std::unordered_map<const PendingOperation*, std::weak_ptr<PendingOperation>> pending_;
  std::vector<std::thread::id> completing_;  // Of each completion that has begun.
};

/// The part of an execution context that knows its pending operations.
class PendingOperationsService final : public boost::asio::execution_context::service {
 public:
  inline static boost::asio::execution_context::id id;

  explicit PendingOperationsService(boost::asio::execution_context& context) : service(context) {}
  // A handler that the context destroyed may have started another operation.
  ~PendingOperationsService() override { operations_->abandon_all(); }

  const std::shared_ptr<PendingOperations>& operations() const { return operations_; }

 private:
  void shutdown() override { operations_->abandon_all(); }

  // Shared with the operations, which may outlive the context.
  const std::shared_ptr<PendingOperations> operations_ = std::make_shared<PendingOperations>();
};

/// Those of the executor's context; null for an executor without a context.
template <class Executor>
std::shared_ptr<PendingOperations> pending_operations(const Executor& executor) {
  using boost::asio::execution_context;
  const auto of = [](execution_context& context) {
    return boost::asio::use_service<PendingOperationsService>(context).operations();
  };
  if constexpr (requires { of(boost::asio::query(executor, boost::asio::execution::context)); }) {
    return of(boost::asio::query(executor, boost::asio::execution::context));
  } else if constexpr (requires { of(executor.context()); }) {
    return of(executor.context());
  } else {
    return nullptr;
  }
}

/// A handler of an operation that has not completed. It is called once, through its executor, or
/// not at all if its execution context is destroyed before.
template <class Handler, class... Results>
class PendingHandler final : public PendingOperation {
 public:
  explicit PendingHandler(Handler&& handler)
      : handler_(std::move(handler)),
        work_(boost::asio::get_associated_executor(*handler_)),
        operations_(pending_operations(executor())) {}
  ~PendingHandler() override {
    if (operations_ != nullptr && handler_) operations_->remove(*this);
  }
  PendingHandler(const PendingHandler&) = delete;
  PendingHandler& operator=(const PendingHandler&) = delete;

  const std::shared_ptr<PendingOperations>& operations() const { return operations_; }
  auto executor() const { return work_->get_executor(); }
  auto cancellation_slot() const {
    return boost::asio::get_associated_cancellation_slot(*handler_);
  }

  /// A stop token that is requested to stop when the operation is cancelled or abandoned.
  std::stop_token stop_token() {
    stop_ = std::stop_source();
    if (auto slot = cancellation_slot(); slot.is_connected()) {
      slot.assign([stop = stop_](boost::asio::cancellation_type) mutable { stop.request_stop(); });
    }
    return stop_.get_token();
  }

  void abandon() override {
    handler_.reset();
    work_.reset();
    stop_.request_stop();
  }

  void complete(std::exception_ptr error, Results... results) {
    if (operations_ == nullptr) return post(std::move(error), std::move(results)...);
    if (!operations_->begin_completion(*this)) return;
    const struct Completion {
      PendingOperations& operations;
      ~Completion() { operations.end_completion(); }
    } completion{*operations_};
    post(std::move(error), std::move(results)...);
  }

 private:
  void post(std::exception_ptr error, Results... results) {
    // The handler may let the program go on to destroy the execution context. So everything else
    // that belongs to the context is destroyed before the handler is posted, and this executor,
    // which is work of the context, after it.
    const auto executor = boost::asio::prefer(work_->get_executor(),
                                              boost::asio::execution::outstanding_work.tracked);
    const auto allocator = boost::asio::get_associated_allocator(*handler_);
    auto call = [handler = std::move(*handler_), error = std::move(error),
                 ... results = std::move(results)]() mutable {
      auto slot = boost::asio::get_associated_cancellation_slot(handler);
      if (slot.is_connected()) slot.clear();
      std::move(handler)(std::move(error), std::move(results)...);
    };
    handler_.reset();
    work_.reset();
    using Executor = std::remove_cv_t<decltype(executor)>;
    namespace execution = boost::asio::execution;
    if constexpr (!execution::is_executor_v<Executor> ||
                  boost::asio::can_require_v<Executor, execution::blocking_t::never_t>) {
      boost::asio::post(executor, boost::asio::bind_allocator(allocator, std::move(call)));
    } else {
      // That of any_completion_handler may run the handler at once, within the call that starts the
      // operation: not so on another thread.
      boost::asio::post(
          boost::asio::system_executor(),
          [executor, call = std::move(call)]() mutable { executor.execute(std::move(call)); });
    }
  }

  // Both have values until the handler is called or destroyed.
  std::optional<Handler> handler_;
  std::optional<boost::asio::executor_work_guard<boost::asio::associated_executor_t<Handler>>>
      work_;
  const std::shared_ptr<PendingOperations> operations_;
  std::stop_source stop_{std::nostopstate};
};

// Shared, because a std::function must be copyable, and some handlers are not.
template <class... Results, class Handler>
auto make_pending(Handler handler) {
  auto pending = std::make_shared<PendingHandler<Handler, Results...>>(std::move(handler));
  if (pending->operations() != nullptr) pending->operations()->add(pending);
  return pending;
}

/// Starts an operation with these results. `begin` gets the callback and, if it takes one, the stop
/// token for cancellation.
template <class Token, class... Results, class Begin>
auto initiate(Token& token, Begin begin) {
  return boost::asio::async_initiate<Token, void(std::exception_ptr, Results...)>(
      [begin = std::move(begin)](auto handler) {
        const auto pending = make_pending<Results...>(std::move(handler));
        auto callback = [pending](Results... results, std::exception_ptr error) {
          pending->complete(std::move(error), std::move(results)...);
        };
        if constexpr (std::is_invocable_v<const Begin&, decltype(callback), std::stop_token>) {
          begin(std::move(callback), pending->stop_token());
        } else {
          begin(std::move(callback));
        }
      },
      token);
}

/// Asks or claims with copies of their keys.
template <class Asked>
class Copies {
 public:
  explicit Copies(std::span<const Asked> asked) {
    for (const Asked& one : asked) copies_.push_back({one, std::string(one.key)});
  }

  /// The asks or claims, whose keys refer to the copies.
  std::vector<Asked> all() const {
    std::vector<Asked> asked;
    asked.reserve(copies_.size());
    for (const auto& [one, key] : copies_) asked.emplace_back(one).key = key;
    return asked;
  }

 private:
  std::vector<std::pair<Asked, std::string>> copies_;
};

/// `executor` if timers can use it, else the system_executor.
template <class Executor>
auto timer_executor(const Executor& executor) {
  if constexpr (std::is_constructible_v<boost::asio::steady_timer, const Executor&>) {
    return executor;
  } else {
    return boost::asio::system_executor();
  }
}

/// Waits with a timer on the handler's executor, so that the handler's cancellation applies.
template <class Handler>
void wait_until_ready(Reservation& reservation, Handler handler) {
  const auto pending = make_pending<bool>(std::move(handler));
  const auto timer = std::make_shared<boost::asio::steady_timer>(
      timer_executor(pending->executor()), reservation.delay());
  // Not asked again after the wait: reservation.wait() may go by another clock, and block.
  const bool may_go_ahead = reservation && !reservation.is_cancelled();
  auto waited = [&reservation, pending, timer, may_go_ahead](const auto& error) {
    // Asio has put a pointer to the timer there, which is destroyed before the handler is called.
    if (auto slot = pending->cancellation_slot(); slot.is_connected()) slot.clear();
    if (!error) return pending->complete(nullptr, may_go_ahead);
    reservation.async_cancel(
        [pending](std::exception_ptr failure) { pending->complete(std::move(failure), false); });
  };
  timer->async_wait(boost::asio::bind_cancellation_slot(
      pending->cancellation_slot(),
      boost::asio::bind_executor(pending->executor(), std::move(waited))));
}

}  // namespace internal

/// Limiter::check()
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Decision)) Token>
auto async_check(Limiter& limiter, std::string_view key, std::int64_t cost, Token&& token) {
  return internal::initiate<Token, Decision>(
      token, [&limiter, key = std::string(key), cost](auto callback) {
        limiter.async_check(key, cost, std::move(callback));
      });
}

/// Limiter::check_parts(): the decision, and those of the parts.
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Decision, std::vector<Decision>))
              Token>
auto async_check_parts(Limiter& limiter, std::string_view key, std::int64_t cost, Token&& token) {
  return internal::initiate<Token, Decision, std::vector<Decision>>(
      token, [&limiter, key = std::string(key), cost](auto callback) {
        limiter.async_check_parts(key, cost, std::move(callback));
      });
}

/// Limiter::check() for many keys: one decision for each.
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, std::vector<Decision>)) Token>
auto async_check(Limiter& limiter, std::span<const Ask> asks, Token&& token) {
  return internal::initiate<Token, std::vector<Decision>>(
      token, [&limiter, copies = internal::Copies<Ask>(asks)](auto callback) {
        limiter.async_check(copies.all(), std::move(callback));
      });
}

/// check_all()
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Decision)) Token>
auto async_check_all(ClaimList claims, Token&& token) {
  return internal::initiate<Token, Decision>(
      token, [copies = internal::Copies<Claim>(claims)](auto callback) {
        sluice::async_check_all(copies.all(), std::move(callback));
      });
}

/// check_all() with parts: the decision, and that of each claim.
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Decision, std::vector<Decision>))
              Token>
auto async_check_all_parts(ClaimList claims, Token&& token) {
  return internal::initiate<Token, Decision, std::vector<Decision>>(
      token, [copies = internal::Copies<Claim>(claims)](auto callback) {
        sluice::async_check_all_parts(copies.all(), std::move(callback));
      });
}

/// KeyedLimiter::peek()
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Decision)) Token>
auto async_peek(KeyedLimiter& limiter, std::string_view key, Token&& token) {
  return internal::initiate<Token, Decision>(token,
                                             [&limiter, key = std::string(key)](auto callback) {
                                               limiter.async_peek(key, std::move(callback));
                                             });
}

/// Limiter::refund()
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Decision)) Token>
auto async_refund(Limiter& limiter, std::string_view key, std::int64_t units, Token&& token) {
  return internal::initiate<Token, Decision>(
      token, [&limiter, key = std::string(key), units](auto callback) {
        limiter.async_refund(key, units, std::move(callback));
      });
}

/// Limiter::charge()
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Decision)) Token>
auto async_charge(Limiter& limiter, std::string_view key, std::int64_t units, Token&& token) {
  return internal::initiate<Token, Decision>(
      token, [&limiter, key = std::string(key), units](auto callback) {
        limiter.async_charge(key, units, std::move(callback));
      });
}

/// Limiter::take_up_to()
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Decision)) Token>
auto async_take_up_to(Limiter& limiter, std::string_view key, std::int64_t units, Token&& token) {
  return internal::initiate<Token, Decision>(
      token, [&limiter, key = std::string(key), units](auto callback) {
        limiter.async_take_up_to(key, units, std::move(callback));
      });
}

/// KeyedLimiter::block()
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Decision)) Token>
auto async_block(KeyedLimiter& limiter, std::string_view key, std::chrono::nanoseconds duration,
                 Token&& token) {
  return internal::initiate<Token, Decision>(
      token, [&limiter, key = std::string(key), duration](auto callback) {
        limiter.async_block(key, duration, std::move(callback));
      });
}

/// KeyedLimiter::reset()
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr)) Token>
auto async_reset(KeyedLimiter& limiter, std::string_view key, Token&& token) {
  return internal::initiate<Token>(token, [&limiter, key = std::string(key)](auto callback) {
    limiter.async_reset(key, std::move(callback));
  });
}

/// Limiter::reserve(). If the handler is never called, the units stay charged.
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Reservation)) Token>
auto async_reserve(Limiter& limiter, std::string_view key, std::int64_t cost,
                   std::chrono::nanoseconds patience, Token&& token) {
  return internal::initiate<Token, Reservation>(
      token, [&limiter, key = std::string(key), cost, patience](auto callback) {
        limiter.async_reserve(key, cost, patience, std::move(callback));
      });
}

/// Reservation::wait(). The reservation must stay in place and must not be used until the handler
/// is called. If the operation is cancelled, with any type of cancellation, the units are returned,
/// and the result is false.
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, bool)) Token>
auto async_wait(Reservation& reservation, Token&& token) {
  return boost::asio::async_initiate<Token, void(std::exception_ptr, bool)>(
      [&reservation](auto handler) { internal::wait_until_ready(reservation, std::move(handler)); },
      token);
}

/// Reservation::commit()
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Decision)) Token>
auto async_commit(Reservation& reservation, std::int64_t actual, Token&& token) {
  return internal::initiate<Token, Decision>(token, [&reservation, actual](auto callback) {
    reservation.async_commit(actual, std::move(callback));
  });
}

/// Reservation::cancel()
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr)) Token>
auto async_cancel(Reservation& reservation, Token&& token) {
  return internal::initiate<Token>(
      token, [&reservation](auto callback) { reservation.async_cancel(std::move(callback)); });
}

/// Limiter::acquire(). If the operation is cancelled, with any type of cancellation, the result is
/// a denial, and reserved units have been returned.
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Decision)) Token>
auto async_acquire(Limiter& limiter, std::string_view key, std::int64_t cost,
                   std::chrono::nanoseconds patience, Token&& token) {
  return internal::initiate<Token, Decision>(
      token, [&limiter, key = std::string(key), cost, patience](auto callback,
                                                                const std::stop_token& stop) {
        limiter.async_acquire(key, cost, patience, std::move(callback), stop);
      });
}

/// ConcurrencyLimiter::acquire(), with the same cancellation. If the handler is never called, the
/// permit is released.
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Permit)) Token>
auto async_acquire(ConcurrencyLimiter& limiter, std::string_view key,
                   std::chrono::nanoseconds patience, Token&& token) {
  return internal::initiate<Token, Permit>(token, [&limiter, key = std::string(key), patience](
                                                      auto callback, const std::stop_token& stop) {
    limiter.async_acquire(key, patience, std::move(callback), stop);
  });
}

}  // namespace sluice
