#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "net/exchange.h"
#include "stores/memcached/meta_protocol.h"
#include "stores/remote/errand.h"

namespace sluice::memcached {

/// Some commands for one server, and their replies. Lives until on_replies() or on_lost() is
/// called, one of them once. All are called on the courier's thread.
class Query {
 public:
  virtual ~Query() = default;

  /// How many commands write() appends; at least one.
  virtual std::size_t commands() const = 0;
  /// write() or on_replies() follows soon, after some others': what these touch may be asked of
  /// main memory now, so that it is there by then.
  virtual void foresee() {}
  /// Appends the commands, numbered from `number` on. Called once, just before they are sent.
  virtual void write(std::string& output, std::uint32_t number) = 0;

  /// Whether a command is answered so: nothing is believed of an exchange with any other reply.
  virtual bool can_be(const MetaReply& reply) const = 0;
  /// The replies, one for each command, in order.
  virtual void on_replies(std::span<const MetaReply> replies) = 0;
  /// There will be none.
  virtual void on_lost(Loss loss, std::string_view why) = 0;

  /// The time of an errand that it carries is up: forgets it. Returns why it has no answer, a
  /// sentence that is valid until the query is used again. Does not end the query.
  virtual std::string_view abandon(Errand& errand) = 0;

 private:
  friend class QueryQueue;

  Query* after_ = nullptr;
};

/// Queries in order. Owns none of them, and needs no memory: each is in one queue at most.
class QueryQueue {
 public:
  bool empty() const { return first_ == nullptr; }
  /// REQUIRES: not empty, here and below.
  Query& front() const { return *first_; }

  void push_back(Query& query) {
    query.after_ = nullptr;
    (empty() ? first_ : last_->after_) = &query;
    last_ = &query;
  }
  Query& pop_front() { return *std::exchange(first_, first_->after_); }

  /// Foresees so many at its front, or all there are.
  void foresee(std::size_t count) const {
    for (Query* query = first_; query != nullptr && count > 0; query = query->after_, --count) {
      query->foresee();
    }
  }

 private:
  Query* first_ = nullptr;
  Query* last_ = nullptr;
};

}  // namespace sluice::memcached
