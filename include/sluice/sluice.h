#pragma once

/// Sluice answers one question, fast and never wrongly: may this caller go ahead now?
///
/// Start here:
///
///     auto store = sluice::open_store("memory:");
///     sluice::Limiter login(store, sluice::Limit("sliding_log 5/10m", "login"));
///
///     sluice::Decision decision = login.check("203.0.113.7");
///     if (!decision.allowed) tell_to_retry_after(decision.retry_after);
///
/// Limit (limit.h) is what is allowed, Limiter (limiter.h) asks, Decision (decision.h) is the
/// answer, and open_store (store.h) says where the state lives. What to use for what:
///
///     go ahead now, or not at all               Limiter::check
///     many callers at once                      Limiter::check, of a batch
///     wait for one's turn                       Limiter::acquire
///     all of several limits, or none            check_all; `a & b` where key and cost are one
///     a cost that is known only afterwards      Limiter::reserve, then Reservation::commit
///     as much as there is                       Limiter::take_up_to
///     what was used without asking              Limiter::charge; what was not used: refund
///     keep somebody out; let them in again      Limiter::block, reset
///     other numbers, while all runs             Limiter::set_limit
///     so many at the same time                  ConcurrencyLimiter, Permit (permit.h)
///     run this if it may, else that             throttle, funnel (recipes.h)
///     a key from an address, or a secret        ClientIp, KeyHasher (keys.h)
///     any of these, with a callback             Limiter::async_check and so on, Reservation,
///                                               ConcurrencyLimiter, async_check_all
///     Boost.Asio's coroutines and futures       asio.h, which is not included here

#include "sluice/decision.h"     // IWYU pragma: export
#include "sluice/keys.h"         // IWYU pragma: export
#include "sluice/limit.h"        // IWYU pragma: export
#include "sluice/limiter.h"      // IWYU pragma: export
#include "sluice/permit.h"       // IWYU pragma: export
#include "sluice/recipes.h"      // IWYU pragma: export
#include "sluice/reservation.h"  // IWYU pragma: export
#include "sluice/store.h"        // IWYU pragma: export
