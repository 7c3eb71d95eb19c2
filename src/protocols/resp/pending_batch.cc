#include "protocols/resp/pending_batch.h"

#include <utility>

#include "protocols/resp/writer.h"

namespace sluice::resp {
namespace {

/// The texts of a batch that is kept take no more than this each.
constexpr std::size_t kKeepBytes = 4 * 1024;

constexpr std::string_view kHereAlone =
    "the store did not answer: the key is changed in this process at most";

void empty_out(std::string& text) {
  if (text.capacity() > kKeepBytes) {
    std::string().swap(text);
  } else {
    text.clear();
  }
}

}  // namespace

void PendingBatch::add(const Request& request, Form form, const std::shared_ptr<Space>& space) {
  const bool same =
      !requests_.empty() && requests_.back().limit == request.limit && asked_.back().space == space;
  if (!same) asked_.push_back({*request.limit, space});
  keys_ += request.key;
  places_.push_back({.form = form, .asked = asked_.size() - 1, .replies_end = replies_.size()});
  requests_.push_back(request);
}

/// Once all copies are made, and stay where they are.
void PendingBatch::refer_to_copies() {
  std::size_t key_begin = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    Request& request = requests_[i];
    const Asked& asked = asked_[places_[i].asked];
    request.limit = &asked.limit;
    request.space = asked.space.get();
    request.key = {keys_.data() + key_begin, request.key.size()};
    key_begin += request.key.size();
  }
}

bool PendingBatch::submit(Store& store, Instant at, const std::function<void()>& wake) {
  refer_to_copies();
  // So that where the store throws, those are known that it has decided nevertheless.
  decisions_.assign(requests_.size(), {.source = Source::kUnanswered});
  requests = requests_;
  decisions = decisions_;
  now = at;
  wake_ = wake;
  self_ = shared_from_this();
  try {
    if (!store.submit_inquiry(*this)) return false;
  } catch (const StoreError& error) {
    fault = error.what();
  } catch (...) {
    self_.reset();
    throw;
  }
  self_.reset();
  decided_.store(true, std::memory_order_release);
  return true;
}

void PendingBatch::answered() noexcept {
  // From the store on, this belongs to the session's thread, or, if there is none, to `self`.
  const std::function<void()> wake = std::move(wake_);
  const std::shared_ptr<PendingBatch> self = std::move(self_);
  decided_.store(true, std::memory_order_release);
  wake();
}

void PendingBatch::write_replies(std::string& output) const {
  std::size_t written = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const Place& place = places_[i];
    output.append(replies_, written, place.replies_end - written);
    written = place.replies_end;
    const Source source = decisions_[i].source;
    if (source == Source::kUnanswered) {
      Writer(output, Protocol::kResp2).error("UNAVAILABLE " + fault);
    } else if (requests_[i].operation != Operation::kTake && source != Source::kStore) {
      // OK would say more than is so.
      Writer(output, Protocol::kResp2).error("UNAVAILABLE " + std::string(kHereAlone));
    } else {
      append_decision_replies({&place.form, 1}, {&decisions_[i], 1}, output);
    }
  }
  output.append(replies_, written);
}

void PendingBatch::clear() {
  requests_.clear();
  decisions_.clear();
  places_.clear();
  asked_.clear();
  empty_out(keys_);
  empty_out(replies_);
  fault.clear();
  wake_ = nullptr;
  decided_.store(false, std::memory_order_relaxed);
}

std::shared_ptr<PendingBatch> PendingBatches::take() {
  if (kept_.empty()) return std::make_shared<PendingBatch>();
  std::shared_ptr<PendingBatch> batch = std::move(kept_.back());
  kept_.pop_back();
  return batch;
}

void PendingBatches::give_back(std::shared_ptr<PendingBatch> batch) {
  if (kept_.size() == kMaxKept) return;
  batch->clear();
  kept_.push_back(std::move(batch));
}

}  // namespace sluice::resp
