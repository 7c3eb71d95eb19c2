#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <stop_token>

#include "sluice/limiter.h"
#include "testing/scripted_store.h"
#include "testing/waiting_callers.h"

namespace sluice {

/// Callers that wait for limits, by the real clock, on a store that the test controls.
class AcquireFixture : public testing::Test {
 protected:
  void await_waiting(const Limiter& limiter, std::size_t count) {
    sluice::await_waiting(*store_, limiter.limit(), count);
  }

  /// The answer to a caller that should not have to wait; after ten seconds it is stopped.
  static Decision without_waiting(const std::function<Decision(std::stop_token)>& acquire) {
    std::stop_source stop;
    auto decision = std::async(std::launch::async, acquire, stop.get_token());
    if (decision.wait_for(std::chrono::seconds(10)) != std::future_status::ready) {
      ADD_FAILURE() << "the caller waits";
      stop.request_stop();
    }
    return decision.get();
  }

  std::shared_ptr<ScriptedStore> store_ = std::make_shared<ScriptedStore>();
};

}  // namespace sluice
