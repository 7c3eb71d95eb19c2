#pragma once

/// Sluice is a rate limiter. It answers one question: may this caller go ahead now?
///
/// Start here:
///
///     auto store = sluice::open_store("memory:");
///     sluice::Limiter login(store, sluice::Limit("sliding_log 5/10m", "login"));
///
///     sluice::Decision decision = login.check("203.0.113.7");
///     if (decision) go_ahead_after(decision.delay);  // check(): above 0 only with a leaky_bucket.
///     else tell_to_retry_after(decision.retry_after);
///
/// A Limit (limit.h) defines what is allowed. open_store (store.h) opens the store that keeps the
/// states. A Limiter (limiter.h) applies a limit to keys, and a Decision (decision.h) is its
/// answer. What to use:
///
///     to                                            use
///     decide now                                    Limiter::check
///     decide for many keys in one call              Limiter::check with a span
///     wait until units are free                     Limiter::acquire
///     take from several limits, all or nothing      check_all; for one key and cost, `a & b`
///     charge a cost that is known only later        Limiter::reserve, then Reservation::commit
///     take as many units as are left                Limiter::take_up_to
///     record usage without asking; return units     Limiter::charge, Limiter::refund
///     block a key; forget a key                     Limiter::block, Limiter::reset
///     change the limit at run time                  Limiter::set_limit
///     bound how many run at the same time           ConcurrencyLimiter, Permit (permit.h)
///     run a function under a limit                  throttle, funnel (recipes.h)
///     make a key from an address or a secret        ClientIp, KeyHasher (keys.h)
///     tell HTTP clients about their limits          http_headers (http_headers.h)
///     know how a store is; be told of its loss      health, StoreObserver (health.h)
///     test what depends on time                     ManualClock (manual_clock.h)
///     do any of this with a callback                the functions that begin with async_
///     use Boost.Asio's coroutines and futures       asio.h, which this header does not include

#include "sluice/decision.h"      // IWYU pragma: export
#include "sluice/health.h"        // IWYU pragma: export
#include "sluice/http_headers.h"  // IWYU pragma: export
#include "sluice/keys.h"          // IWYU pragma: export
#include "sluice/limit.h"         // IWYU pragma: export
#include "sluice/limiter.h"       // IWYU pragma: export
#include "sluice/manual_clock.h"  // IWYU pragma: export
#include "sluice/permit.h"        // IWYU pragma: export
#include "sluice/recipes.h"       // IWYU pragma: export
#include "sluice/reservation.h"   // IWYU pragma: export
#include "sluice/store.h"         // IWYU pragma: export
