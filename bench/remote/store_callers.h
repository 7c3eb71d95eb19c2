#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/store.h"
#include "remote/key_tape.h"
#include "remote/load.h"
#include "sluice/limit.h"

namespace sluice::bench {

/// Callers of one limit on a store that answers later: each submits its next request as soon as the
/// one before is answered, on the thread that answers.
class StoreCallers final : public Load {
 public:
  /// `tape` outlives it. Throws StoreError where the store cannot keep the limit's keys.
  StoreCallers(std::shared_ptr<Store> store, const Limit& limit, const KeyTape& tape,
               std::size_t callers);
  ~StoreCallers() override;

  void run(std::uint64_t decisions_per_caller) override;

 private:
  class Caller;
  struct Round;

  const std::unique_ptr<Round> round_;
  std::vector<std::unique_ptr<Caller>> callers_;
  const Limit limit_;
  KeyCursor keys_;
  std::shared_ptr<Store> store_;  // Goes before the callers: its thread may still be in one.
  const std::shared_ptr<Space> space_;
};

/// Returns once the store has answered for itself. Throws std::runtime_error where it has not
/// within five seconds.
void await_store(Store& store, const Limit& limit);

}  // namespace sluice::bench
