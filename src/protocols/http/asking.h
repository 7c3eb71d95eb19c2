#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <string_view>

#include "core/batch.h"
#include "protocols/http/context.h"

namespace sluice::http {

/// The limit of this name or expression. Throws Problem: 404 if no limit has this name, 400 with
/// the offset if the expression is invalid, 503 if the store has no room for the limit. Valid as
/// LimitRegistry::find() says.
const SharedLimit& find_limit(ThreadState& thread, std::string_view text);

/// Throws Problem if the limit cannot carry out this operation: some limits have permits, the
/// others units.
void require_kind(const RegisteredLimit& limit, const Request& request);

/// Adds a request to the batch, whose response `detail` describes, or waits to be the only one
/// (RequestContext::waits_for_decisions()). Its key stays valid until the batch has been asked.
/// Throws Problem as require_kind().
void ask(RequestContext& context, const SharedLimit& limit, Request request, ReplyDetail detail);

/// The style of headers that the request chooses ("?headers=draft-3"), or else the configured one.
/// Throws Problem if there is no such style.
HeaderStyle read_style(ThreadState& thread, std::string_view name);

/// A request to take units, and the limit that it refers to.
struct Check {
  SharedLimit limit;
  Request request;
};

/// Reads {limit, key, cost}. The key is a view of the object. Throws Problem.
Check read_check(ThreadState& thread, const boost::json::value& object);
/// Reads checks[at]; the sentence of the Problem begins with this place. If the system refuses
/// something, that is a Problem with 503, too. REQUIRES: at < checks.size().
Check read_check(ThreadState& thread, const boost::json::array& checks, std::size_t at);

}  // namespace sluice::http
