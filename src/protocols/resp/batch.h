#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/store.h"

namespace sluice::resp {

/// The most commands that one read of a connection handles before it is another's turn.
inline constexpr std::size_t kMaxBatch = 64;

/// How a decision is told.
enum class Form : std::uint8_t {
  kThrottle,  ///< limited, limit, remaining, retry_after and reset_after in seconds.
  kCheck,     ///< allowed, limit, remaining, retry_after, reset_after and delay in milliseconds.
  kDone,      ///< OK.
};

/// Appends the replies to these decisions, in order. REQUIRES: as many forms as decisions.
void append_decision_replies(std::span<const Form> forms, std::span<const Decision> decisions,
                             std::string& output);

/// Decisions asked for by commands in a row, so that the store is asked once for all of them.
class Batch {
 public:
  /// REQUIRES: fewer than kMaxBatch pending. What the request refers to lives until answer().
  void add(const Request& request, Form form) {
    requests_[size_] = request;
    forms_[size_++] = form;
  }

  /// Adds the last request again, for another key, if it is pending and of this form: true.
  /// REQUIRES: as add().
  bool repeat(std::string_view key, Form form) {
    if (size_ == 0 || forms_[size_ - 1] != form) return false;
    // One by one: what is copied as a block was written in pieces a moment ago, and would wait.
    const Request& last = requests_[size_ - 1];
    Request& next = requests_[size_];
    next.limit = last.limit;
    next.space = last.space;
    next.key = key;
    next.operation = last.operation;
    next.cost = last.cost;
    next.patience_ns = last.patience_ns;
    forms_[size_++] = form;
    return true;
  }

  /// Lets the store decide what is pending, at `now` or kStoreTime, and appends the replies in
  /// order. Where the store cannot answer, each reply is the error that says why.
  /// REQUIRES: the store never answers later.
  void answer(Store& store, Instant now, std::string& output);

  /// Drops what is pending, undecided.
  void forget() { size_ = 0; }

 private:
  std::array<Request, kMaxBatch> requests_;
  std::array<Decision, kMaxBatch> decisions_;
  std::array<Form, kMaxBatch> forms_{};
  std::size_t size_ = 0;
};

}  // namespace sluice::resp
