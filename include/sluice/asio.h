#pragma once

/// The library for programs of Boost.Asio (1.81 or later): operations that take a completion token,
/// and so a callback, use_future, or use_awaitable:
///
///     sluice::Decision decision = co_await sluice::async_acquire(
///         limiter, "example.org", 1, 30s, boost::asio::use_awaitable);
///
/// Not part of sluice.h, which needs the standard library alone. Handlers run on their associated
/// executor, which has work until then, and never before the operation returns; those that have
/// none, on a thread of Asio's system_executor. What a Limiter would throw is given to the handler
/// as std::exception_ptr: co_await and futures throw it.

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/limiter.h"
#include "sluice/permit.h"

namespace sluice {
namespace internal {

/// A handler whose result is still to come. It is called once, by way of its executor.
template <class Handler, class Result>
class PendingHandler {
 public:
  explicit PendingHandler(Handler&& handler)
      : handler_(std::move(handler)), work_(boost::asio::get_associated_executor(handler_)) {}

  /// Stopped when the operation is cancelled, if its handler has a way to.
  std::stop_token stop_token() {
    auto slot = boost::asio::get_associated_cancellation_slot(handler_);
    if (!slot.is_connected()) return {};
    std::stop_source source;
    slot.assign([source](boost::asio::cancellation_type) mutable { source.request_stop(); });
    return source.get_token();
  }

  void complete(std::exception_ptr error, Result result) {
    const auto allocator = boost::asio::get_associated_allocator(handler_);
    auto call = [handler = std::move(handler_), error = std::move(error),
                 result = std::move(result)]() mutable {
      auto slot = boost::asio::get_associated_cancellation_slot(handler);
      if (slot.is_connected()) slot.clear();
      std::move(handler)(std::move(error), std::move(result));
    };
    boost::asio::post(work_.get_executor(),
                      boost::asio::bind_allocator(allocator, std::move(call)));
    // Not before post() has returned: who runs the handler may destroy the context after it.
    work_.reset();
  }

 private:
  Handler handler_;
  boost::asio::executor_work_guard<boost::asio::associated_executor_t<Handler>> work_;
};

// Shared, since a std::function is to be copied, and a handler cannot always be.
template <class Result, class Handler>
auto make_pending(Handler handler) {
  return std::make_shared<PendingHandler<Handler, Result>>(std::move(handler));
}

}  // namespace internal

/// Limiter::async_check(). The key is copied; the limiter stays where it is until the operation is
/// under way: a coroutine begins it with co_await. It cannot be cancelled.
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Decision)) Token>
auto async_check(Limiter& limiter, std::string_view key, std::int64_t cost, Token&& token) {
  return boost::asio::async_initiate<Token, void(std::exception_ptr, Decision)>(
      [&limiter, cost](auto handler, const std::string& asked) {
        const auto pending = internal::make_pending<Decision>(std::move(handler));
        limiter.async_check(asked, cost,
                            [pending](const Decision& decision, std::exception_ptr error) {
                              pending->complete(std::move(error), decision);
                            });
      },
      token, std::string(key));
}

/// Limiter::async_acquire(), likewise. It may be cancelled, by any type of cancellation: it is then
/// denied, and what was reserved has been given back.
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Decision)) Token>
auto async_acquire(Limiter& limiter, std::string_view key, std::int64_t cost,
                   std::chrono::nanoseconds patience, Token&& token) {
  return boost::asio::async_initiate<Token, void(std::exception_ptr, Decision)>(
      [&limiter, cost, patience](auto handler, const std::string& asked) {
        const auto pending = internal::make_pending<Decision>(std::move(handler));
        std::stop_token stop = pending->stop_token();
        limiter.async_acquire(
            asked, cost, patience,
            [pending](const Decision& decision, std::exception_ptr error) {
              pending->complete(std::move(error), decision);
            },
            std::move(stop));
      },
      token, std::string(key));
}

/// ConcurrencyLimiter::async_acquire(), likewise. A permit whose handler is never called is given
/// back.
template <BOOST_ASIO_COMPLETION_TOKEN_FOR(void(std::exception_ptr, Permit)) Token>
auto async_acquire(ConcurrencyLimiter& limiter, std::string_view key,
                   std::chrono::nanoseconds patience, Token&& token) {
  return boost::asio::async_initiate<Token, void(std::exception_ptr, Permit)>(
      [&limiter, patience](auto handler, const std::string& asked) {
        const auto pending = internal::make_pending<Permit>(std::move(handler));
        std::stop_token stop = pending->stop_token();
        limiter.async_acquire(
            asked, patience,
            [pending](Permit permit, std::exception_ptr error) {
              pending->complete(std::move(error), std::move(permit));
            },
            std::move(stop));
      },
      token, std::string(key));
}

}  // namespace sluice
