#include "service/decision_batch.h"

#include <algorithm>
#include <utility>

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

void PendingAnswers::receive(const Batch& batch) {
  answers_.decisions.assign(batch.decisions().begin(), batch.decisions().end());
  answers_.error = batch.error();
  // Once the state is kReady, this belongs to the connection's thread.
  const std::function<void()> wake = std::move(wake_);
  if (state_.exchange(State::kReady, std::memory_order_acq_rel) == State::kWaiting) wake();
}

bool PendingAnswers::wait() {
  State submitted = State::kSubmitted;
  return state_.compare_exchange_strong(submitted, State::kWaiting, std::memory_order_acq_rel);
}

void DecisionBatch::clear() {
  size_ = 0;
  answers_.slots.clear();
  answers_.other_replies.clear();
  owners_.clear();
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
  if (answers_later_) {
    auto pending = submit(wake);
    if (pending->wait()) return pending;
    pending->get().write(writer, counters_, output);
  } else {
    decide();
    answers_.write(writer, counters_, output);
  }
  clear();
  return nullptr;
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
  auto batch = std::make_unique<Batch>(std::span(requests_).first(size_));
  for (auto& owner : owners_) batch->keep(std::move(owner));
  auto pending = std::make_shared<PendingAnswers>(std::exchange(answers_, {}), wake);
  batch->completion = [pending](Batch& answered) { pending->receive(answered); };
  clear();
  store_->submit(std::move(batch));
  return pending;
}

}  // namespace sluice
