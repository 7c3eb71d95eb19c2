#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "limiter/guarded_store.h"
#include "limiter/scripted_store.h"
#include "sluice/limiter.h"

namespace sluice {

/// Asking without waiting, of a store that is told when to answer.
class LaterUnderTest : public testing::Test {
 protected:
  using Asked = ScriptedStore::Asked;
  struct Told {
    Decision decision;
    std::exception_ptr error;
  };

  Limiter make_limiter(const GuardOptions& options = {}) {
    return {std::make_shared<GuardedStore>(inner_, options), Limit("sliding_log 10/1w", "limit")};
  }

  DecisionCallback tell() {
    return [this](const Decision& decision, std::exception_ptr error) {
      told_.push_back({decision, std::move(error)});
    };
  }
  DoneCallback tell_done() {
    return [this](std::exception_ptr error) { told_.push_back({{}, std::move(error)}); };
  }
  ReservationCallback keep_it() {
    return [this](Reservation reservation, std::exception_ptr error) {
      told_.push_back({reservation.decision(), std::move(error)});
      reserved_ = std::move(reservation);
    };
  }

  /// What the last callback was given.
  Told last() {
    EXPECT_FALSE(told_.empty());
    return told_.empty() ? Told{} : told_.back();
  }
  std::string last_sentence() {
    try {
      if (auto error = last().error) std::rethrow_exception(std::move(error));
    } catch (const std::exception& known) {
      return known.what();
    }
    return "no error";
  }

  std::shared_ptr<ScriptedStore> inner_ = std::make_shared<ScriptedStore>();
  std::vector<Told> told_;
  Reservation reserved_;
};

}  // namespace sluice
