#pragma once

#include "protocols/http/context.h"

namespace sluice::http {

// What the paths do: each function carries out one request, by adding to the batch or by answering
// at once, or throws Problem. The table of paths is in routes.cc.

// check_endpoints.cc
void run_check(Exchange& exchange);

// key_endpoints.cc
void run_peek(Exchange& exchange);
void run_reset(Exchange& exchange);
void run_refund(Exchange& exchange);
void run_charge(Exchange& exchange);
void run_take(Exchange& exchange);
void run_block(Exchange& exchange);
void run_reserve(Exchange& exchange);
void run_commit(Exchange& exchange);
void run_acquire(Exchange& exchange);
void run_renew(Exchange& exchange);
void run_release(Exchange& exchange);

// auth_endpoints.cc
void run_auth(Exchange& exchange);
void run_auth_path(Exchange& exchange);

// status_endpoints.cc
void run_limits(Exchange& exchange);
void run_health(Exchange& exchange);
void run_ready(Exchange& exchange);
void run_metrics(Exchange& exchange);
void run_top(Exchange& exchange);

// playground_endpoints.cc
void run_playground(Exchange& exchange);
void run_simulate(Exchange& exchange);

}  // namespace sluice::http
