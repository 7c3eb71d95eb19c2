#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "protocols/http/arena.h"
#include "protocols/http/replies.h"
#include "protocols/http/reservations.h"
#include "protocols/http/response.h"
#include "service/server_context.h"

namespace sluice::http {

/// The state that HTTP's connections of one serving thread share. Not thread-safe.
struct ThreadState {
  /// `protocol`: the name under which its connections are counted.
  ThreadState(std::shared_ptr<ServerContext> server_context, std::size_t thread,
              std::shared_ptr<Reservations> all_reservations, std::string_view protocol)
      : server(std::move(server_context)),
        context(server->thread(thread)),
        reservations(std::move(all_reservations)),
        counters(server->protocol(protocol)) {}

  /// Takes the server's present rules.
  void update_rules() {
    const std::uint64_t current = server->client_rules().version();
    if (rules != nullptr && current == rules_version) return;
    rules_version = current;  // First, so that rules which are replaced meanwhile are taken next.
    rules = server->client_rules().get();
  }
  /// Whether the peer is a proxy that the rules trust.
  bool trusts(std::string_view peer) const {
    constexpr std::string_view kAnyone = "192.0.2.1";  // An address for examples.
    return peer != kAnyone && rules->client_ip.key(peer, {&kAnyone, 1}) == kAnyone;
  }

  const std::shared_ptr<ServerContext> server;
  ThreadContext& context;
  const std::shared_ptr<Reservations> reservations;  // Of all threads.
  ProtocolCounters& counters;
  std::unique_ptr<Arena> arena = std::make_unique<Arena>();  // Of the batch in hand.
  DateText date;
  /// Set by update_rules().
  std::shared_ptr<const ClientRules> rules;
  std::uint64_t rules_version = 0;
};

/// The other side of a connection.
struct Peer {
  std::string address;
  /// Who the peer is without a token in the request.
  ClientAccess access;
  /// Whether only programs of this machine can reach the listener.
  bool is_loopback = false;
  /// Whether it is connected to a listener for operators (--admin).
  bool is_at_admin = false;
  /// Whether it is a trusted proxy: what it says of the request that it passes on is believed.
  bool is_trusted = false;
  std::uint64_t rules_version = 0;  // By which rules that was found.

  /// Whether only programs of this machine can connect in this way.
  bool is_local() const { return is_loopback || address == "unix:"; }
};

class CheckList;

/// What an endpoint needs to answer a request: the request, who the client is, and where the answer
/// goes.
struct RequestContext {
  ThreadState& thread;
  const Peer& peer;
  const Message& message;
  DecisionReplies& replies;
  ResponseOptions options;
  std::string& output;
  /// Set by a request for many independent decisions, which take several batches.
  std::unique_ptr<CheckList>& list;
  /// If true, nothing more is added to the batch: the store decides it now.
  bool is_last = false;
  /// The client's roles, by the token of the request or else by Peer::access.
  Roles roles = kNoRole;
  /// Whether the request has the token of a user.
  bool has_right_token = false;
  /// If true, this request was not carried out: it is run again when the store has decided the
  /// batch.
  bool is_to_repeat = false;

  std::string_view date() const { return thread.date.at(thread.server->store().now()); }

  /// Answers with a response that is not a decision.
  void respond(const Response& response) {
    write_response(thread.context.batch.other_replies(output), options, date(), response);
  }

  /// Ends the batch. For a request that must be the only one of its batch, or that reports counts
  /// of decisions: true if the batch has other requests before it. The endpoint must then return;
  /// it is run again.
  bool waits_for_decisions() {
    is_last = true;
    is_to_repeat = !thread.context.batch.is_empty();
    return is_to_repeat;
  }
};

}  // namespace sluice::http
