#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/store.h"
#include "replay/decision_writer.h"
#include "replay/key_template.h"
#include "replay/record.h"
#include "replay/tally.h"
#include "sluice/limit.h"

namespace sluice::replay {

/// A limit, and how the user wrote it.
struct NamedLimit {
  std::string expression;
  Limit limit;
};

/// Judges requests by several limits, each on its own, and counts the answers. Neighbours in the
/// input that share their instant go to the store as one batch. Not thread-safe.
class Judge {
 public:
  /// `writer` gets every decision, in the order of the requests and within one of the limits; null
  /// if nobody wants them. It must outlive the judge. Throws StoreError.
  Judge(std::shared_ptr<Store> store, std::vector<NamedLimit> limits, DecisionWriter* writer);

  /// Takes one request; it may be decided only later. Throws StoreError, and what the writer
  /// throws.
  void add(const Record& record, const KeyTemplate& key);

  /// Decides what was added. Throws as add().
  void flush();

  /// What was decided so far.
  Summary summary() const { return tally_.summary(); }

 private:
  static constexpr std::size_t kBatch = 64;

  struct Lane {
    Limit limit;
    std::shared_ptr<Space> space;
    std::string json;
    std::array<Decision, kBatch> decisions;
  };

  void write_decisions();

  std::shared_ptr<Store> store_;
  DecisionWriter* writer_;
  Tally tally_;
  std::vector<Lane> lanes_;
  /// The batch: its instant, and its keys one after the other with the offset where each ends.
  Instant now_ = 0;
  std::size_t size_ = 0;
  std::string keys_;
  std::array<std::size_t, kBatch> key_ends_{};
  std::array<Request, kBatch> requests_;
  /// Each request has a permit of its own, which it never gives back: a log does not say when.
  PermitId last_permit_ = 0;
};

}  // namespace sluice::replay
