#pragma once

#include "protocols/http/context.h"

namespace sluice::http {

// What the paths do: each function carries out one request, by adding to the batch or by answering
// at once, or throws Problem. The table of paths is in routes.cc.

// check_endpoints.cc
void run_check(RequestContext& context);

// key_endpoints.cc
void run_peek(RequestContext& context);
void run_reset(RequestContext& context);
void run_refund(RequestContext& context);
void run_charge(RequestContext& context);
void run_take(RequestContext& context);
void run_block(RequestContext& context);
void run_reserve(RequestContext& context);
void run_commit(RequestContext& context);
void run_acquire(RequestContext& context);
void run_renew(RequestContext& context);
void run_release(RequestContext& context);

// auth_endpoints.cc
void run_auth(RequestContext& context);
void run_auth_path(RequestContext& context);

// status_endpoints.cc
void run_limits(RequestContext& context);
void run_health(RequestContext& context);
void run_ready(RequestContext& context);
void run_metrics(RequestContext& context);
void run_top(RequestContext& context);

// playground_endpoints.cc
void run_playground(RequestContext& context);
void run_simulate(RequestContext& context);

}  // namespace sluice::http
