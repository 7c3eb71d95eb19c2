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
  std::unique_ptr<Batch> on_answered(Batch& batch) override {
    std::vector<Request> late;
    for (std::size_t i = 0; i < batch.decisions().size(); ++i) {
      if (batch.decisions()[i].taken == kTakenLater) late.push_back(batch.requests()[i]);
    }
    batch.completion(batch);
    if (late.empty()) return nullptr;
    auto later = std::make_unique<Batch>(late);
    later->keep(std::move(kept));
    later->completion = [this](const Batch& answered) {
      for (const Decision& decision : answered.decisions()) all.push_back(decision);
      for (const Request& request : answered.requests()) {
        parts.insert(parts.end(), request.parts.begin(), request.parts.end());
      }
    };
    return later;
  }

  /// What the requests refer to: it is destroyed once they have been answered.
  std::shared_ptr<const void> kept;
  std::vector<std::size_t> replied;  // Which decisions it was told as they were made.
  std::vector<Decision> all;
  std::vector<Decision> parts;
};

}  // namespace sluice
