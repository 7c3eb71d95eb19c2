#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "core/batch.h"
#include "core/store.h"

namespace sluice {

/// A test double for the store around a store: wants the answers that come late, and keeps them.
class LateAnswers final : public Batch::OuterStore {
 public:
  void on_reply(Batch&, std::size_t i, std::chrono::steady_clock::time_point) noexcept override {
    replied.push_back(i);
  }
  bool on_answered(Batch& batch) override {
    if (batch.outer.stage == Batch::Stage::kLate) {
      for (const std::size_t i : late_) {
        all.push_back(batch.decisions()[i]);
        const auto& own = batch.requests()[i].parts;
        parts.insert(parts.end(), own.begin(), own.end());
      }
      return false;
    }
    for (std::size_t i = 0; i < batch.decisions().size(); ++i) {
      if (batch.decisions()[i].taken == kTakenLater) late_.push_back(i);
    }
    batch.completion(batch);
    batch.outer.stage = Batch::Stage::kLate;
    batch.keep_only({std::move(kept)});
    return !late_.empty();
  }

  /// What the requests refer to: it is destroyed once they have been answered.
  std::shared_ptr<const void> kept;
  std::vector<std::size_t> replied;  // Which decisions it was told as they were made.
  std::vector<Decision> all;
  std::vector<Decision> parts;

 private:
  std::vector<std::size_t> late_;
};

}  // namespace sluice
