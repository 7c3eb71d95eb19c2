#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

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
