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
/// answer, and open_store (store.h) says where the state lives.

#include "sluice/decision.h"  // IWYU pragma: export
#include "sluice/limit.h"     // IWYU pragma: export
#include "sluice/limiter.h"   // IWYU pragma: export
#include "sluice/store.h"     // IWYU pragma: export
