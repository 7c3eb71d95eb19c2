#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/algorithm.h"
#include "core/instant.h"
#include "core/operation.h"
#include "sluice/decision.h"

namespace sluice {

class Space;
struct LimitDefinition;

/// One question to a store. Every protocol, the library and replay ask with this. Whatever it
/// refers to outlives the call, or is kept alive by the Batch that it is put into.
struct Request {
  /// What is allowed. `space` was opened with it, or with one from which it differs only in numbers
  /// that leave states readable: the key keeps its state and is judged by these.
  const LimitDefinition* limit = nullptr;
  Space* space = nullptr;
  std::string_view key = {};
  Operation operation = Operation::kTake;
  /// At least 0.
  std::int64_t cost = 1;
  /// kTake: the longest delay the caller accepts, in nanoseconds, or kDefaultPatience.
  std::int64_t patience_ns = kDefaultPatience;
  /// kBlock: 1 to kMaxDurationNs.
  std::int64_t duration_ns = 0;
  /// Of a limit of permits. kTake: not one that was given before.
  PermitId permit = 0;
  /// kRenew, kRelease, kRefund: the source of the decision that gave the units or the permit; they
  /// are returned only there. kRelease with kUnavailable: it is not known whether the store gave
  /// the permit, and only the store is asked.
  Source giver = Source::kStore;
  /// Where the decisions go that are combined to the one answer, in the order that
  /// Decision::binding counts; empty where they are not wanted. Asked alone, or in a list of one:
  /// the decision of each part of the limit. Asked together with others: one, the request's own. If
  /// all admit, they are as after the charge; if one denies, they are as it stands, with `allowed`
  /// and `retry_after` for the cost that is asked. Where the answer is kUnavailable they mean
  /// nothing.
  std::span<Decision> parts = {};
};

/// Let the store's own clock say what time it is.
inline constexpr Instant kStoreTime = -1;

/// Requests that are given to a store together, and their decisions. It owns what they refer to:
/// it copies the keys, and holds a share of whatever keeps the limits and spaces alive. A store
/// that asks another machine takes the batch over, so that the caller may go away at any time.
///
/// Belongs to one thread at a time: to the caller until Store::submit(), then to the store.
class Batch final {
 public:
  /// Called once, when all decisions are made, on the store's worker thread or within submit(). It
  /// must not throw or block, since other callers wait for the worker thread. The batch is
  /// destroyed when it returns.
  using Completion = std::function<void(Batch&)>;

  /// Whether each request is decided by itself, or all are admitted or none.
  enum class Mode : std::uint8_t { kEach, kTogether };

  /// Copies the requests and their keys. All are asked at the instant `now`, or at the store's own
  /// time. REQUIRES: at least one request.
  explicit Batch(std::span<const Request> requests, Mode mode = Mode::kEach,
                 Instant now = kStoreTime)
      : mode_(mode), now_(now), requests_(requests.begin(), requests.end()) {
    assert(!requests.empty());
    std::size_t key_bytes = 0;
    for (const Request& request : requests_) key_bytes += request.key.size();
    keys_.reserve(key_bytes);  // The views below must not move.
    for (Request& request : requests_) {
      const std::size_t begin = keys_.size();
      keys_.insert(keys_.end(), request.key.begin(), request.key.end());
      request.key = {keys_.data() + begin, request.key.size()};
    }
    keep_parts();
    decisions_.resize(mode == Mode::kTogether ? 1 : requests_.size(),
                      Decision{.source = Source::kUnavailable});
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  std::span<Request> requests() { return {requests_.data(), requests_.size()}; }
  std::span<const Request> requests() const { return {requests_.data(), requests_.size()}; }
  /// decisions()[i] answers requests()[i]; there is one where all are asked together. Each is
  /// kUnavailable until the store has made it.
  std::span<Decision> decisions() { return {decisions_.data(), decisions_.size()}; }
  std::span<const Decision> decisions() const { return {decisions_.data(), decisions_.size()}; }
  bool is_together() const { return mode_ == Mode::kTogether; }
  Instant now() const { return now_; }

  /// Copies the decisions of parts to where the requests want them of which this was made.
  void copy_parts(std::span<const Request> to) const {
    assert(to.size() == requests_.size());
    for (std::size_t i = 0; i < to.size(); ++i) {
      std::ranges::copy_n(requests_[i].parts.begin(), std::ssize(to[i].parts), to[i].parts.begin());
    }
  }

  /// Keeps `owner`, and so what the requests refer to, until the batch is destroyed.
  void keep(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }

  /// Why a decision is kUnavailable: one sentence, for the first such. Empty where all are made.
  const std::string& error() const { return error_; }
  /// Says why a decision cannot be made. Only the first reason is kept.
  void set_error(std::string_view why) {
    if (error_.empty()) error_ = why;
  }
  /// Forgets the reason: the decisions have been made after all.
  void clear_error() { error_.clear(); }

  /// Set by the caller before submit(). A store around another store (FallbackStore) may replace it
  /// by one that calls it.
  Completion completion;

  /// Called by the store when all decisions are made: calls the completion and destroys the batch.
  static void complete(std::unique_ptr<Batch> batch) {
    const Completion told = std::exchange(batch->completion, nullptr);
    assert(told != nullptr);
    told(*batch);
  }

 private:
  // The decisions of parts are the batch's own as well: a caller may go away. Requests that are
  // asked together always have theirs made: a FallbackStore learns from them.
  void keep_parts() {
    const bool is_group = is_together() && requests_.size() > 1;
    const auto parts_of = [&](const Request& request) {
      return is_group ? 1 : request.parts.size();
    };
    std::size_t count = 0;
    for (const Request& request : requests_) count += parts_of(request);
    parts_.resize(count, Decision{.source = Source::kUnavailable});
    std::span<Decision> rest = parts_;
    for (Request& request : requests_) {
      request.parts = rest.first(parts_of(request));
      rest = rest.subspan(request.parts.size());
    }
  }

  const Mode mode_;
  const Instant now_;
  boost::container::small_vector<Request, 1> requests_;
  boost::container::small_vector<Decision, 1> decisions_;
  std::vector<Decision> parts_;
  boost::container::small_vector<std::shared_ptr<const void>, 1> owners_;
  boost::container::small_vector<char, 48> keys_;
  std::string error_;
};

}  // namespace sluice
