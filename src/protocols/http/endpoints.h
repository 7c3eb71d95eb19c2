#pragma once

#include "core/operation.h"
#include "protocols/http/context.h"
#include "protocols/http/replies.h"

namespace sluice::http {

// What the paths do: each function carries out one request, by adding to the batch or by answering
// at once, or throws Problem. The table of paths is in routes.cc.

// check_endpoints.cc
void run_check(RequestContext& context);

// key_endpoints.cc
/// A request for {limit, key}, with a cost if the operation has one.
void run_of_key(RequestContext& context, Operation operation, Form form);
void run_block(RequestContext& context);
void run_reserve(RequestContext& context);
void run_commit(RequestContext& context);
void run_acquire(RequestContext& context);
/// A request for {limit, key, permit}.
void run_of_permit(RequestContext& context, Operation operation);

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
