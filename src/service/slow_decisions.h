#pragma once

#include <atomic>
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
  /// Batches that were slow since the one reported before, and not reported.
  std::uint64_t left_out = 0;
};

/// Reports batches that took long, and not more of them than kReports. Thread-safe.
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

  /// REQUIRES: no decision has been made yet.
  void set_report(Report report) { report_ = std::move(report); }
  /// Batches that take longer are slow. Before the first call none is.
  void set_threshold(std::chrono::nanoseconds threshold) { threshold_ns_ = threshold.count(); }

  /// The batch of these requests took so long.
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
