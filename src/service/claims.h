#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch.h"
#include "service/answers.h"
#include "sluice/decision.h"

namespace sluice {

/// Claims that are decided together, all or nothing. Overrides may answer some of them, and limits
/// in a dry run must not make the others fail. So the store is asked in rounds: if only limits in a
/// dry run deny, it is asked again without them. If an override denies, the store is only asked, by
/// peeks, what the other claims would answer. Otherwise there is one round.
///
/// Not thread-safe.
class Claims {
 public:
  /// `answers` has the slots of all claims, and the decisions of overrides; `asked` are the
  /// requests for the store, whose keys are copied. REQUIRES: at least one claim.
  Claims(Answers answers, std::span<const Request> asked);

  /// Whether all rounds are over.
  bool is_decided() const { return round_.empty(); }
  /// The requests of the next round, and how they are asked.
  std::span<const Request> requests() const { return requests_; }
  Batch::Mode mode() const { return mode_; }

  /// Takes the store's answer to the round. The requests are those that were asked, with the
  /// decisions of their parts. REQUIRES: the store has made all decisions.
  void take(std::span<const Decision> decisions, std::span<const Request> requests);
  /// The store has not answered, or refused to be asked together; `why` is a sentence.
  void fail(std::string_view why);
  void refuse(std::string_view why);

  /// The answers to all claims. Called once. REQUIRES: is_decided().
  Answers finish();

 private:
  void begin_round(const std::vector<std::size_t>& claims);
  void take_whole(const Decision& whole, std::span<const Request> requests);
  void take_peeks(std::span<const Decision> decisions);
  void combine();

  Answers answers_;
  TogetherAnswer answer_;
  // For each claim: the units asked for, and the request, with its key. Their decisions are
  // answer_.parts.
  std::vector<std::int64_t> units_;
  std::vector<Request> claims_;
  std::deque<std::string> keys_;
  // The present round: the indices of the claims that are asked, and the requests.
  std::vector<std::size_t> round_;
  std::vector<Request> requests_;
  std::vector<Decision> room_;
  Batch::Mode mode_ = Batch::Mode::kTogether;
  bool is_over_ = false;  // The answer is that of the store, or an error.
};

}  // namespace sluice
