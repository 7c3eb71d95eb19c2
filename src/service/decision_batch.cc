#include "service/decision_batch.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "algorithms/limit_definition.h"

namespace sluice {
namespace {

constexpr std::string_view kInThisProcess =
    "the store did not answer: the key is changed in this process at most";

// Whether the decision can be sent to the client: that of a take may be made by the local states or
// the policy; of another operation such a reply would say that the store had changed the key.
bool is_final(const ReplySlot& slot, Source source) {
  if (source == Source::kStore) return true;
  if (source == Source::kUnavailable) return false;
  return slot.may_be_local || (source != Source::kLocal && source != Source::kPolicy);
}

}  // namespace

void Answers::write(ReplyWriter& writer, OutcomeCounters& counters, std::string& output) const {
  if (is_together) return write_all(writer, counters, output);
  std::size_t others_written = 0;
  const auto write_others = [&](std::size_t end) {
    output.append(other_replies, others_written, end - others_written);
    others_written = end;
  };
  const std::span all(slots);
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    write_others(all[begin].others_before);
    // Decisions in a row are given to the writer together.
    for (end = begin; end < all.size() && all[end].others_before == others_written; ++end) {
      if (!is_final(all[end], decisions[end].source)) break;
    }
    if (end != begin) {
      const auto row = std::span(decisions).subspan(begin, end - begin);
      writer.write_decisions(all.subspan(begin, end - begin), row, output);
    } else {
      const bool undecided = decisions[begin].source == Source::kUnavailable;
      writer.write_unavailable(all[begin], undecided ? error : kInThisProcess, output);
      end = begin + 1;
    }
  }
  write_others(other_replies.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Decision& decision = decisions[i];
    if (slots[i].is_counted) counters.add(slots[i].limit, decision.allowed, decision.source);
  }
}

void Answers::write_all(ReplyWriter& writer, OutcomeCounters& counters, std::string& output) const {
  assert(!slots.empty() && slots[0].others_before == 0);
  if (is_refused) {
    writer.write_refused(slots[0], error, output);
    output += other_replies;
    return;
  }
  const Decision& whole = decisions[0];
  if (!is_final(slots[0], whole.source)) {
    writer.write_unavailable(slots[0], error, output);
  } else {
    writer.write_together(slots[0], whole, parts, output);
  }
  output += other_replies;
  for (const ReplySlot& slot : slots) {
    if (slot.is_counted) counters.add(slot.limit, whole.allowed, whole.source);
  }
}

void PendingAnswers::receive(const Batch& batch) {
  answers_.decisions.assign(batch.decisions().begin(), batch.decisions().end());
  answers_.error = batch.error();
  answers_.parts.clear();
  for (const Request& request : batch.requests()) {
    answers_.parts.insert(answers_.parts.end(), request.parts.begin(), request.parts.end());
  }
  // Once the state is kReady, this belongs to the connection's thread.
  const std::function<void()> wake = std::move(wake_);
  if (state_.exchange(State::kReady, std::memory_order_acq_rel) == State::kWaiting) wake();
}

void PendingAnswers::refuse(std::string_view why) {
  answers_.is_refused = true;
  answers_.error = why;
  state_.store(State::kReady, std::memory_order_release);
}

bool PendingAnswers::wait() {
  State submitted = State::kSubmitted;
  return state_.compare_exchange_strong(submitted, State::kWaiting, std::memory_order_acq_rel);
}

void DecisionBatch::clear() {
  size_ = 0;
  answers_.slots.clear();
  answers_.other_replies.clear();
  answers_.is_together = answers_.is_refused = false;
  owners_.clear();
  if (is_special_) requests_.fill({});
  is_special_ = false;
}

void DecisionBatch::repeat(std::string_view key) {
  assert(size_ != 0 && size_ < kMaxRequests);
  // Copied member by member: copying the struct as a block would stall, because its members were
  // written separately just before (store forwarding).
  const Request& last = requests_[size_ - 1];
  Request& next = requests_[size_++];
  next.limit = last.limit;
  next.space = last.space;
  next.key = key;
  next.operation = last.operation;
  next.cost = last.cost;
  next.patience_ns = last.patience_ns;
  answers_.slots.push_back(answers_.slots.back());
}

std::shared_ptr<PendingAnswers> DecisionBatch::ask(ReplyWriter& writer,
                                                   const std::function<void()>& wake,
                                                   std::string& output) {
  if (size_ == 0) return nullptr;
  if (answers_.is_together) want_parts();
  if (answers_later_) {
    auto pending = submit(wake);
    if (pending->wait()) return pending;
    pending->get().write(writer, counters_, output);
  } else {
    answers_.is_together ? decide_together() : decide();
    answers_.write(writer, counters_, output);
  }
  clear();
  return nullptr;
}

// Gives the requests room for the decisions that are to be told beside the one of all.
void DecisionBatch::want_parts() {
  assert(size_ <= kMaxTogether);
  const std::size_t count = size_ == 1 ? requests_[0].limit->parts.size() : size_;
  answers_.parts.assign(count, Decision{.source = Source::kUnavailable});
  const std::span<Decision> parts(answers_.parts);
  if (size_ == 1) {
    requests_[0].parts = parts;
  } else {
    for (std::size_t i = 0; i < size_; ++i) requests_[i].parts = parts.subspan(i, 1);
  }
}

void DecisionBatch::decide_together() {
  answers_.decisions.assign(1, Decision{.source = Source::kUnavailable});
  try {
    answers_.decisions[0] = store_->decide_all(requests(), kStoreTime);
  } catch (const StoreError& error) {
    answers_.error = error.what();
  } catch (const std::invalid_argument& error) {
    answers_.is_refused = true;
    answers_.error = error.what();
  }
}

void DecisionBatch::decide() {
  if (answers_.decisions.size() < size_) answers_.decisions.resize(size_);
  const auto decisions = std::span(answers_.decisions).first(size_);
  try {
    store_->decide(std::span(requests_).first(size_), kStoreTime, decisions);
  } catch (const StoreError& error) {
    answers_.error = error.what();
    std::fill(decisions.begin(), decisions.end(), Decision{.source = Source::kUnavailable});
  }
}

std::shared_ptr<PendingAnswers> DecisionBatch::submit(const std::function<void()>& wake) {
  const bool is_together = answers_.is_together;
  auto batch = std::make_unique<Batch>(requests(),
                                       is_together ? Batch::Mode::kTogether : Batch::Mode::kEach);
  for (auto& owner : owners_) batch->keep(std::move(owner));
  auto pending = std::make_shared<PendingAnswers>(std::exchange(answers_, {}), wake);
  batch->completion = [pending](Batch& answered) { pending->receive(answered); };
  clear();
  try {
    store_->submit(std::move(batch));
  } catch (const std::invalid_argument& error) {
    if (!is_together) throw;
    pending->refuse(error.what());
  }
  return pending;
}

}  // namespace sluice
