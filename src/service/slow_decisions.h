#pragma once

#include <atomic>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "service/reply_slot.h"
#include "sluice/limiter.h"
#include "sluice/store.h"

namespace sluice {

/// A batch whose decisions took longer than the threshold.
struct SlowBatch {
  /// The names of its limits, with commas.
  std::string limits;
  std::size_t decisions = 0;
  std::chrono::nanoseconds duration{0};
  /// How many slow batches have not been reported since the last report.
  std::uint64_t left_out = 0;
};

/// Reports slow batches, at most as often as kReports allows. Thread-safe.
class SlowDecisions {
 public:
  /// The limit of the reports.
  static constexpr const char* kReports = "token_bucket 1/1s burst=10";
  static constexpr std::chrono::nanoseconds kNever = std::chrono::nanoseconds::max();

  /// The name of a limit, by RegisteredLimit::number.
  using NameOf = std::function<std::string(std::uint16_t limit)>;
  /// Called on the serving threads; throws nothing.
  using Report = std::function<void(const SlowBatch& batch)>;

  /// `reports`: where the state of kReports is kept.
  SlowDecisions(NameOf name_of, std::shared_ptr<Store> reports);

  /// REQUIRES: called once, before set_threshold() and before any decision.
  void set_report(Report report) {
    assert(report_ == nullptr && threshold_ns_ == kNever.count());
    report_ = std::move(report);
  }
  /// Batches that take longer are slow. Before the first call none is.
  void set_threshold(std::chrono::nanoseconds threshold) { threshold_ns_ = threshold.count(); }

  /// The batch of these requests took this long.
  void note(std::int64_t duration_ns, std::span<const ReplySlot> slots) {
    if (duration_ns > threshold_ns_.load(std::memory_order_relaxed)) report(duration_ns, slots);
  }

 private:
  void report(std::int64_t duration_ns, std::span<const ReplySlot> slots);

  const NameOf name_of_;
  Report report_;
  Limiter limiter_;
  std::atomic<std::int64_t> threshold_ns_ = kNever.count();
  std::atomic<std::uint64_t> left_out_ = 0;
};

}  // namespace sluice
