#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/store.h"
#include "replay/charts.h"
#include "replay/decision_writer.h"
#include "replay/request_sink.h"
#include "replay/sweep.h"
#include "replay/tally.h"
#include "sluice/limit.h"

namespace sluice::replay {

/// A limit, and its expression as the user wrote it.
struct NamedLimit {
  std::string expression;
  Limit limit;
};

/// Receivers of the decisions besides the tally; each may be null, and must outlive the judge.
struct Listeners {
  /// Gets every decision, in the order in which the requests were added, and for each request in
  /// the order of the limits.
  DecisionWriter* writer = nullptr;
  /// As the writer, if there are no more than kMaxCharted limits.
  Charts* charts = nullptr;
  /// Gets the requests.
  Sweep* sweep = nullptr;
};

/// Decides requests by several independent limits, and counts the decisions. Successive requests
/// with the same instant go to the store as one batch. Not thread-safe.
class Judge : public RequestSink {
 public:
  /// Throws StoreError.
  Judge(std::shared_ptr<Store> store, std::vector<NamedLimit> limits, const Listeners& listeners);

  /// Adds one request, which may be decided later. Throws StoreError, and the exceptions of the
  /// writer.
  void add(const LoggedRequest& request) override;

  /// Decides all added requests. Throws as add().
  void flush() override;

  /// The counts up to now.
  const Tally& tally() const { return tally_; }

 private:
  static constexpr std::size_t kBatch = 64;

  /// A limit with its space, its expression as JSON, and its decisions of the batch; if the writer
  /// is told those of its parts, they are kept request after request.
  struct OpenLimit {
    Limit limit;
    std::shared_ptr<Space> space;
    std::string json;
    std::array<Decision, kBatch> decisions;
    std::vector<Decision> parts;

    /// The parts' decisions of the batch's i-th request; empty if they are not kept.
    std::span<Decision> parts_of(std::size_t i) {
      const std::size_t each = parts.size() / kBatch;
      return std::span(parts).subspan(i * each, each);
    }
  };

  void write_decisions();
  void chart_decisions(std::span<const Tally::KeyId> ids);

  std::shared_ptr<Store> store_;
  Listeners listeners_;
  Tally tally_;
  std::vector<OpenLimit> limits_;
  /// The batch, and its instant.
  Instant now_ = 0;
  std::size_t size_ = 0;
  std::array<Request, kBatch> requests_;
  /// Each request acquires a permit and never releases it, since a log does not say when it ended.
  PermitId last_permit_ = 0;
};

}  // namespace sluice::replay
